//! The size of lists: callers without all rights get pages.

use std::collections::HashMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use waypost_core::op::{Description, Effect};

use super::{Call, Found, Reply, Respond, operations};
use crate::serving::access::Role;

/// Maximum number of entries in a list for callers without all rights.
const MAX_PAGE: usize = 1_000;

/// The JSON pointer to the limit in the arguments of each operation that has one.
static LIMITS: LazyLock<HashMap<&'static str, &'static str>> =
    LazyLock::new(|| operations().filter_map(|about| Some((about.name, pointer(&about)?))).collect());

fn pointer(about: &Description) -> Option<&'static str> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = (about.schema)(&mut settings.into_generator()).to_value();
    let has = |pointer: &str| schema.pointer(pointer).is_some();
    if has("/properties/limit") {
        return Some("/limit");
    }
    has("/properties/query/properties/limit").then_some("/query/limit")
}

/// How the list in the answer to a call is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// Not at all.
    Whole,
    /// The operation got the maximum as its limit.
    Limited,
    /// The operation has no limit, so its answer is cut.
    Cut,
}

impl Page {
    /// Limits the list that a call asks for, if its caller has not all rights.
    pub(super) fn limit(call: &mut Call, found: Found) -> Page {
        if call.grant.role == Role::Admin {
            return Page::Whole;
        }
        let Some(pointer) = LIMITS.get(found.about().name) else {
            return if found.about().effect == Effect::Read { Page::Cut } else { Page::Whole };
        };
        match call.arguments.pointer_mut(pointer) {
            // Without a limit the operation has a smaller default, and refuses 0 and a value of another type.
            Some(limit) if limit.as_u64().is_some_and(|limit| limit > MAX_PAGE as u64) => {
                *limit = json!(MAX_PAGE);
                Page::Limited
            }
            _ => Page::Whole,
        }
    }

    /// Cuts the lists of an answer where its operation has no limit, and warns that a list may be longer.
    pub(super) fn warn(self, mut reply: Reply) -> Reply {
        let has_next = reply.answer.get("next").is_some_and(|next| !next.is_null());
        let mut lists: Vec<&mut Vec<Value>> = match &mut reply.answer {
            Value::Array(list) => vec![list],
            Value::Object(fields) => fields.values_mut().filter_map(Value::as_array_mut).collect(),
            _ => return reply,
        };
        let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        let is_longer = match self {
            Page::Whole => false,
            Page::Limited => has_next,
            Page::Cut => longest > MAX_PAGE,
        };
        if is_longer {
            for list in &mut lists {
                list.truncate(MAX_PAGE);
            }
            reply.warnings.push(format!("only the first {MAX_PAGE} entries are listed"));
        }
        reply
    }

    /// Warns in the reply of a queued call.
    pub(super) fn warn_in(self, respond: Respond) -> Respond {
        if self == Page::Whole {
            return respond;
        }
        Box::new(move |reply| respond(reply.and_then(Reply::into_tree).map(|reply| self.warn(reply).into())))
    }
}
