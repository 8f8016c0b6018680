//! Typed ids: a prefix for the type, and 12 characters of `[0-9a-z]`.
//!
//! An id is never a bare `String`: a function with a [`WorktreeId`] parameter does not accept the id of a task.
//! Randomness comes from an [`Entropy`] argument.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// The number of random characters after the prefix; 36^12 is about 62 bits.
pub(crate) const LENGTH: usize = 12;
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
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name([u8; $prefix.len() + LENGTH]);

            impl $name {
                /// The prefix with its underscore.
                pub const PREFIX: &str = $prefix;

                /// Generates a new id.
                pub fn generate(entropy: &mut dyn Entropy) -> Self {
                    Self(draw($prefix, entropy))
                }

                /// Returns the whole id.
                pub fn as_str(&self) -> &str {
                    // It has ASCII characters only.
                    std::str::from_utf8(&self.0).unwrap_or_default()
                }
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.as_str())
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_str(IdVisitor(PhantomData))
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
                    check($prefix, text).map(Self)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_tuple(stringify!($name)).field(&self.as_str()).finish()
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(self.as_str())
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

/// Reads an id from its text.
struct IdVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err = Error>> Visitor<'_> for IdVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Draws the characters of an id, whose size is that of the prefix and [`LENGTH`].
fn draw<const SIZE: usize>(prefix: &str, entropy: &mut dyn Entropy) -> [u8; SIZE] {
    let mut id = [0; SIZE];
    let (start, rest) = id.split_at_mut(prefix.len());
    start.copy_from_slice(prefix.as_bytes());
    let mut places = rest.iter_mut();
    while places.len() > 0 {
        let mut bytes = [0; LENGTH];
        entropy.fill(&mut bytes);
        // 252 is the largest multiple of 36 in a byte: bytes above it would make some characters more likely.
        let usable = bytes.into_iter().filter(|byte| *byte < 252);
        for (byte, place) in usable.zip(&mut places) {
            *place = ALPHABET[usize::from(byte % 36)];
        }
    }
    id
}

/// Returns the characters of an id, if the text has its form.
fn check<const SIZE: usize>(prefix: &str, text: &str) -> Result<[u8; SIZE]> {
    let is_drawn = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    match text.as_bytes().try_into() {
        Ok(id) if text.strip_prefix(prefix).is_some_and(|rest| rest.bytes().all(is_drawn)) => Ok(id),
        _ => {
            Err(Error::invalid(format!("{text:?} is not an id of the form {prefix} and {LENGTH} characters of 0-9a-z")))
        }
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
