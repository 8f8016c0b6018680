//! Typed ids: a prefix for the type, and 12 characters of `[0-9a-z]`.
//!
//! An id is never a bare `String`: a function with a [`WorktreeId`] parameter does not accept the id of a task.
//! Randomness comes from an [`Entropy`] argument.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The number of random characters after the prefix; 36^12 is about 62 bits.
const LENGTH: usize = 12;
const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A source of random bytes.
pub trait Entropy {
    /// Fills the buffer.
    fn fill(&mut self, bytes: &mut [u8]);
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {
        /// The prefixes of all id types, each with its type's name.
        pub const PREFIXES: &[(&str, &str)] = &[$(($prefix, stringify!($name))),*];

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
            #[serde(try_from = "String", into = "String")]
            pub struct $name(String);

            impl $name {
                /// The prefix with its underscore.
                pub const PREFIX: &str = $prefix;

                /// Generates a new id.
                pub fn generate(entropy: &mut dyn Entropy) -> Self {
                    Self(draw($prefix, entropy))
                }

                /// Returns the whole id.
                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn inline_schema() -> bool {
                    true
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "type": "string", "pattern": format!("^{}[0-9a-z]{{{LENGTH}}}$", $prefix) })
                }
            }

            impl FromStr for $name {
                type Err = Error;

                fn from_str(text: &str) -> Result<Self> {
                    check($prefix, text)?;
                    Ok(Self(text.to_owned()))
                }
            }

            impl TryFrom<String> for $name {
                type Error = Error;

                fn try_from(text: String) -> Result<Self> {
                    check($prefix, &text)?;
                    Ok(Self(text))
                }
            }

            impl From<$name> for String {
                fn from(id: $name) -> String {
                    id.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&self.0)
                }
            }
        )*
    };
}

ids! {
    /// Names a workflow.
    WorkflowId = "wf_";
    /// Names a task.
    TaskId = "tk_";
    /// Names a checkpoint.
    CheckpointId = "cp_";
    /// Names a workspace.
    WorkspaceId = "ws_";
    /// Names a repository.
    RepositoryId = "rp_";
    /// Names a template.
    TemplateId = "tmpl_";
    /// Names an agent.
    AgentId = "ag_";
    /// Names a message.
    MessageId = "msg_";
    /// Names a job.
    JobId = "jb_";
    /// Names a worktree.
    WorktreeId = "wt_";
}

fn draw(prefix: &str, entropy: &mut dyn Entropy) -> String {
    let mut id = String::with_capacity(prefix.len() + LENGTH);
    id.push_str(prefix);
    let mut drawn = 0;
    while drawn < LENGTH {
        let mut bytes = [0; LENGTH];
        entropy.fill(&mut bytes);
        for byte in bytes {
            // 252 is the largest multiple of 36 in a byte: bytes above it would make some characters more likely.
            if byte < 252 && drawn < LENGTH {
                id.push(char::from(ALPHABET[usize::from(byte % 36)]));
                drawn += 1;
            }
        }
    }
    id
}

fn check(prefix: &str, text: &str) -> Result<()> {
    let fits = text.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() == LENGTH && rest.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
    });
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!("{text:?} is not an id of the form {prefix} and {LENGTH} characters of 0-9a-z")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every byte value in order.
    struct Counter(u8);

    impl Entropy for Counter {
        fn fill(&mut self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0;
                self.0 = self.0.wrapping_add(1);
            }
        }
    }

    #[test]
    fn c8_every_prefix_of_the_design_has_a_type() {
        let prefixes: Vec<_> = PREFIXES.iter().map(|(prefix, _)| *prefix).collect();
        assert_eq!(prefixes, ["wf_", "tk_", "cp_", "ws_", "rp_", "tmpl_", "ag_", "msg_", "jb_", "wt_"]);
    }

    #[test]
    fn generated_ids_parse_to_themselves() {
        let mut entropy = Counter(0);
        for _ in 0..1000 {
            let id = WorktreeId::generate(&mut entropy);
            assert_eq!(id.as_str().parse::<WorktreeId>().unwrap(), id);
        }
    }

    #[test]
    fn all_characters_are_equally_likely() {
        let mut entropy = Counter(0);
        let mut counts = [0_u32; 36];
        // 252 of 256 values are usable, and an id has 12 characters: 21 ids use each value exactly once.
        for _ in 0..21 {
            for byte in &TaskId::generate(&mut entropy).as_str().as_bytes()[3..] {
                counts[ALPHABET.iter().position(|known| known == byte).unwrap()] += 1;
            }
        }
        assert_eq!(counts.iter().min(), counts.iter().max());
    }

    #[test]
    fn ids_of_another_type_or_form_are_refused() {
        for bad in
            ["", "wt_", "tk_0123456789ab", "wt_0123456789aB", "wt_0123456789abc", "wt_../../../x", "wt_012345678 9"]
        {
            assert!(bad.parse::<WorktreeId>().is_err(), "{bad:?}");
        }
    }
}
