//! Configuration: layers of TOML, the environment and flags, with the origin of every value.

mod edit;
mod keys;
mod layers;

pub use edit::{add_to_list, remove_from_list, set, unset};
pub use keys::{KEYS, Key, ValueKind, key_named};
pub use layers::{ACCEPTED, Config, Files, Layer, Setting, Value, leads_outside};
