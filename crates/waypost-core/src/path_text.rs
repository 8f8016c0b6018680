//! Lossless text form of paths.
//!
//! Paths are bytes; columns and JSON are UTF-8. A UTF-8 path is its own text. Any other path is a `file://` URL with
//! its invalid bytes percent-encoded. Only absolute paths are stored, and none begins with `file://`, so the two forms
//! are distinct.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{percent_decode_str, percent_encode_byte};

const SCHEME: &str = "file://";

/// Returns the text form of an absolute path.
pub fn to_text(path: &Path) -> String {
    if let Some(text) = path.to_str() {
        return text.to_owned();
    }
    let mut text = String::from(SCHEME);
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        text.extend(chunk.invalid().iter().map(|byte| percent_encode_byte(*byte)));
    }
    text
}

/// Returns the path of a text from [`to_text`].
pub fn from_text(text: &str) -> PathBuf {
    let Some(encoded) = text.strip_prefix(SCHEME) else {
        return PathBuf::from(text);
    };
    PathBuf::from(std::ffi::OsString::from_vec(percent_decode_str(encoded).collect()))
}

/// The text form for serde: `#[serde(with = "path_text::serde")]`.
pub mod serde {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the text form.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::to_text(path))
    }

    /// Reads the text form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(super::from_text(&String::deserialize(deserializer)?))
    }
}

/// The text form of optional paths for serde: `#[serde(with = "path_text::optional")]`.
pub mod optional {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    /// Writes the text form.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::to_text).serialize(serializer)
    }

    /// Reads the text form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(|text| super::from_text(&text)))
    }
}

/// Returns a name for a path: its last component, or the path itself for `/`.
pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("/")).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(bytes: &[u8]) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(bytes))
    }

    #[test]
    fn utf8_paths_are_their_own_text() {
        for plain in ["/home/me/a b\nc", "/tmp/50%25", "/ö"] {
            assert_eq!(to_text(Path::new(plain)), plain);
        }
    }

    #[test]
    fn invalid_bytes_are_percent_encoded() {
        assert_eq!(to_text(&path(b"/tmp/caf\xe9 5%")), "file:///tmp/caf%E9 5%25");
    }

    proptest! {
        #[test]
        fn every_absolute_path_round_trips(bytes in proptest::collection::vec(1_u8.., 0..60)) {
            let mut absolute = vec![b'/'];
            absolute.extend(bytes);
            prop_assert_eq!(from_text(&to_text(&path(&absolute))), path(&absolute));
        }
    }
}
