//! Where each operation is found: derived from its name and its arguments, never written by hand.
//!
//! Every operation answers at `POST /api/v1/op/NAME` with its arguments as the body. Beside that it has the address that
//! people expect: `list_tasks` is `GET /api/v1/tasks`, `show_task` is `GET /api/v1/tasks/{task}`, `finish_task` is
//! `POST /api/v1/tasks/{task}/finish`.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use waypost_core::op::{Audience, Effect};
use waypost_core::{Error, Result, nearest};

use waypost::host::Described;

/// What every address of an operation begins with.
pub(crate) const ROOT: &str = "/api/v1";
/// How many are listed if nobody says.
const USUAL: u32 = 100;
/// How many are listed at most; whoever wants all goes from page to page.
const MOST: u32 = 1_000;

/// What has an address of its own.
const THINGS: &[&str] =
    &["task", "workflow", "issue", "message", "agent", "template", "worktree", "repository", "job", "workspace"];

/// An operation with all that is needed to ask for it.
pub(crate) struct Op {
    pub(crate) described: Described,
    /// Its arguments, each with its schema.
    pub(crate) properties: Map<String, Value>,
    pub(crate) required: Vec<String>,
    pub(crate) rest: Rest,
    /// Whether its answer has warnings as one of its fields, which are not those of the request.
    has_own_warnings: bool,
}

/// The address that people expect.
pub(crate) struct Rest {
    pub(crate) is_get: bool,
    pub(crate) path: String,
    /// The same with the name in it, where the name may also be left out.
    pub(crate) named_path: Option<String>,
    /// The argument that stands in the path.
    pub(crate) key: Option<String>,
    /// The argument whose fields are asked for one by one: its name, and its fields.
    pub(crate) nested: Option<(String, Map<String, Value>)>,
    /// Whether it answers with a list.
    pub(crate) is_list: bool,
}

impl Op {
    pub(crate) fn new(described: Described) -> Op {
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        let schema = (described.schema)(&mut settings.into_generator()).to_value();
        let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<String> = required.filter_map(Value::as_str).map(str::to_owned).collect();
        let answer = answer_fields(&described);
        let rest = Rest::of(&described, &properties, &required, &answer);
        let has_own_warnings = answer.contains_key("warnings");
        Op { described, properties, required, rest, has_own_warnings }
    }

    /// Tells whether it has an address that people expect.
    pub(crate) fn is_public(&self) -> bool {
        self.described.audience == Audience::Public
    }

    /// Takes the warnings of a request out of its answer.
    pub(crate) fn take_warnings(&self, answer: &mut Value) -> Vec<Value> {
        let warnings = match answer {
            Value::Object(fields) if !self.has_own_warnings => fields.shift_remove("warnings"),
            _ => None,
        };
        match warnings {
            Some(Value::Array(warnings)) => warnings,
            _ => Vec::new(),
        }
    }

    /// Refuses arguments that the operation does not have: a wrong name would be a wish that nobody heard.
    pub(crate) fn check(&self, arguments: &Value) -> Result<()> {
        let name = self.described.name;
        let Value::Object(fields) = arguments else {
            return Err(Error::invalid(format!("the arguments of {name} are an object")));
        };
        match fields.keys().find(|key| !self.properties.contains_key(*key)) {
            Some(unknown) => Err(unknown_argument(name, unknown, &self.properties)),
            None => Ok(()),
        }
    }

    /// Reads arguments from the part of an address after the question mark.
    pub(crate) fn arguments_of(&self, query: &[(String, String)]) -> Result<Map<String, Value>> {
        let (known, nested) = match &self.rest.nested {
            Some((name, fields)) => (fields, Some(name)),
            None => (&self.properties, None),
        };
        let mut arguments = Map::new();
        for (name, text) in query {
            let Some(schema) = known.get(name) else {
                return Err(unknown_argument(self.described.name, name, known));
            };
            let kind = kind(schema);
            if kind == Some("array") {
                let item = schema.get("items").and_then(self::kind);
                let items = text.split(',').filter(|item| !item.is_empty());
                let items = items.map(|text| read(name, text, item)).collect::<Result<Vec<_>>>()?;
                match arguments.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new())) {
                    Value::Array(all) => all.extend(items),
                    _ => unreachable!("it was made an array"),
                }
            } else if arguments.insert(name.clone(), read(name, text, kind)?).is_some() {
                return Err(Error::invalid(format!("{name} is given twice")));
            }
        }
        if known.contains_key("limit") {
            let limit = arguments.entry("limit").or_insert_with(|| USUAL.into());
            if limit.as_u64().is_none_or(|limit| limit > u64::from(MOST)) {
                return Err(Error::invalid(format!("limit is a number up to {MOST}"))
                    .hint("whoever wants more goes from page to page"));
            }
        }
        Ok(match nested {
            Some(name) => Map::from_iter([(name.clone(), Value::Object(arguments))]),
            None => arguments,
        })
    }
}

impl Rest {
    fn of(
        described: &Described,
        properties: &Map<String, Value>,
        required: &[String],
        answer: &Map<String, Value>,
    ) -> Rest {
        let is_read = described.effect == Effect::Read;
        let is_name = |name: &str| required.iter().any(|known| known == name) && is_text(&properties[name]);
        let mut named_path = None;
        let (path, key) = match described.name.split_once('_') {
            None => (described.name.to_owned(), None),
            Some((verb, noun)) => {
                let (noun, all) = (singular(noun), plural(noun));
                let is_thing = THINGS.contains(&noun.as_str());
                let key = [noun.as_str(), "name", "id"].into_iter().find(|name| is_thing && is_name(name));
                let key = key.map(str::to_owned);
                // What is no thing of its own is a part of one.
                let whole = THINGS.iter().copied().find(|thing| !is_thing && is_name(thing));
                match (verb, key, whole) {
                    ("list", _, Some(whole)) => {
                        (format!("{}/{{{whole}}}/{all}", plural(whole)), Some(whole.to_owned()))
                    }
                    ("get" | "show", _, Some(whole)) => {
                        (format!("{}/{{{whole}}}/{noun}", plural(whole)), Some(whole.to_owned()))
                    }
                    (_, _, Some(whole)) => {
                        (format!("{}/{{{whole}}}/{verb}-{noun}", plural(whole)), Some(whole.to_owned()))
                    }
                    ("list", ..) if is_read => (all, None),
                    ("get", ..) => (noun, None),
                    ("create" | "add" | "send" | "save", ..) => (all, None),
                    ("show", Some(key), _) => (format!("{all}/{{{key}}}"), Some(key)),
                    (_, Some(key), _) => (format!("{all}/{{{key}}}/{verb}"), Some(key)),
                    (_, None, None) if is_thing && properties.get(&noun).is_some_and(is_text) => {
                        named_path = Some(address(&format!("{all}/{{{noun}}}/{verb}")));
                        (format!("{all}/{verb}"), Some(noun))
                    }
                    (_, None, None) => (format!("{all}/{verb}"), None),
                }
            }
        };
        let nested = match properties.iter().collect::<Vec<_>>().as_slice() {
            [(name, schema)] if kind(schema) == Some("object") => {
                let fields = schema.get("properties").and_then(Value::as_object).cloned();
                fields.map(|fields| ((*name).clone(), fields))
            }
            _ => None,
        };
        let is_list = is_read && has_one_list(described, answer);
        Rest { is_get: is_read, path: address(&path), named_path, key, nested, is_list }
    }
}

/// Returns the fields of an answer, each with its schema.
fn answer_fields(described: &Described) -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = (described.answer_schema)(&mut settings.into_generator()).to_value();
    schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Tells whether an answer is a list, and perhaps how it goes on.
fn has_one_list(described: &Described, answer: &Map<String, Value>) -> bool {
    let is_listing = described.name.starts_with("list_") || described.name.ends_with('s');
    is_listing && answer.values().filter(|field| kind(field) == Some("array")).count() == 1
}

/// Writes names with a dash, and arguments as they are.
fn address(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { part.to_owned() } else { part.replace('_', "-") };
    std::iter::once(ROOT.to_owned()).chain(path.split('/').map(part)).collect::<Vec<_>>().join("/")
}

fn unknown_argument(operation: &str, unknown: &str, known: &Map<String, Value>) -> Error {
    let error = Error::invalid(format!("{operation} has no argument {unknown:?}"));
    match nearest::nearest(unknown, known.keys().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None if known.is_empty() => error.hint("it has none"),
        None => error.hint(format!("it has {}", known.keys().cloned().collect::<Vec<_>>().join(", "))),
    }
}

/// Reads a text as what its schema wants.
fn read(name: &str, text: &str, kind: Option<&str>) -> Result<Value> {
    let wrong = |what: &str| Error::invalid(format!("{name} is {what}, and not {text:?}"));
    match kind {
        Some("integer") => text.parse::<u64>().map(Value::from).map_err(|_| wrong("a whole number")),
        Some("number") => text.parse::<f64>().map(Value::from).map_err(|_| wrong("a number")),
        Some("boolean") => text.parse::<bool>().map(Value::from).map_err(|_| wrong("true or false")),
        _ => Ok(Value::from(text)),
    }
}

/// Returns the type that a schema asks for, nothing aside.
pub(crate) fn kind(schema: &Value) -> Option<&str> {
    let one = |value: &Value| -> Option<String> { value.as_str().filter(|kind| *kind != "null").map(str::to_owned) };
    let found = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().find_map(one),
        Some(kind) => one(kind),
        None => {
            let any = schema.get("anyOf").and_then(Value::as_array);
            return any.into_iter().flatten().find_map(kind);
        }
    };
    ["integer", "number", "boolean", "array", "object", "string"]
        .into_iter()
        .find(|kind| Some(*kind) == found.as_deref())
}

fn is_text(schema: &Value) -> bool {
    kind(schema) == Some("string")
}

fn singular(noun: &str) -> String {
    match noun.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None if noun.ends_with("us") => noun.to_owned(),
        None => noun.strip_suffix('s').unwrap_or(noun).to_owned(),
    }
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with('s') || noun == "inbox" || noun == "maintenance" => noun.to_owned(),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use waypost_core::op::TABLE;

    use super::*;

    fn op(name: &str) -> Op {
        Op::new(TABLE.iter().find(|entry| entry.name == name).expect("it is an operation").into())
    }

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_operation_has_an_address_of_its_own() {
        let ops = TABLE.iter().map(|entry| Op::new(entry.into()));
        let ops: Vec<Op> = ops.filter(Op::is_public).collect();
        let addresses: BTreeSet<_> = ops.iter().map(|op| (op.rest.is_get, op.rest.path.clone())).collect();
        assert_eq!(addresses.len(), ops.len());
    }

    #[test]
    fn addresses_are_those_that_people_expect() {
        for (name, is_get, path) in [
            ("list_tasks", true, "/api/v1/tasks"),
            ("show_task", true, "/api/v1/tasks/{task}"),
            ("claim_task", false, "/api/v1/tasks/claim"),
            ("finish_task", false, "/api/v1/tasks/{task}/finish"),
            ("next_tasks", true, "/api/v1/tasks/next"),
            ("create_workflow", false, "/api/v1/workflows"),
            ("list_repositories", true, "/api/v1/repositories"),
            ("show_template", true, "/api/v1/templates/{name}"),
            ("get_status", true, "/api/v1/status"),
            ("list_inbox", false, "/api/v1/inbox/list"),
            ("heartbeat", false, "/api/v1/heartbeat"),
            ("get_context", true, "/api/v1/tasks/{task}/context"),
            ("list_checkpoints", true, "/api/v1/tasks/{task}/checkpoints"),
            ("ask_question", false, "/api/v1/tasks/{task}/ask-question"),
            ("remove_worktree", false, "/api/v1/worktrees/{id}/remove"),
        ] {
            let rest = op(name).rest;
            assert_eq!((rest.is_get, rest.path.as_str()), (is_get, path), "{name}");
        }
        assert_eq!(op("claim_task").rest.named_path.as_deref(), Some("/api/v1/tasks/{task}/claim"));
        assert_eq!(op("finish_task").rest.named_path, None);
    }

    #[test]
    fn what_stands_after_the_question_mark_is_read_as_its_schema_wants() {
        let arguments = |name: &str, pairs: &[(&str, &str)]| op(name).arguments_of(&query(pairs)).map(Value::Object);
        assert_eq!(
            arguments("list_tasks", &[("statuses", "pending,dead"), ("claimable", "true"), ("limit", "5")]).unwrap(),
            json!({ "statuses": ["pending", "dead"], "claimable": true, "limit": 5 })
        );
        assert_eq!(arguments("list_tasks", &[]).unwrap(), json!({ "limit": 100 }));
        assert_eq!(
            arguments("list_events", &[("since", "7"), ("subject", "7")]).unwrap(),
            json!({ "query": { "since": 7, "subject": "7", "limit": 100 } })
        );
        for (pairs, message) in [
            (&[("limt", "5")][..], "list_tasks has no argument \"limt\""),
            (&[("limit", "x")], "limit is a whole number, and not \"x\""),
            (&[("limit", "1001")], "limit is a number up to 1000"),
            (&[("limit", "1"), ("limit", "2")], "limit is given twice"),
            (&[("claimable", "yes")], "claimable is true or false, and not \"yes\""),
        ] {
            assert_eq!(arguments("list_tasks", pairs).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn arguments_that_nobody_knows_are_refused() {
        let claim = op("claim_task");
        assert!(claim.check(&json!({ "workflow": "x" })).is_ok());
        let error = claim.check(&json!({ "worklow": "x" })).unwrap_err();
        assert_eq!(error.hints(), ["did you mean workflow?"]);
        assert!(claim.check(&json!([])).is_err());
    }
}
