//! Percent-encoded text in headers and URIs.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Decodes a percent-encoded text. Returns `None` if it is not well-formed or not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    // The library keeps a percent sign without two digits. Here it is a mistake of the client.
    let has_digits = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(has_digits) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// Encodes a text as one segment of a path.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_decoded_and_malformed_text_is_refused() {
        for (part, text) in [
            ("t_1", Some("t_1")),
            ("a%2Fb%20c", Some("a/b c")),
            ("%C3%A9+%25", Some("é+%")),
            ("a%2", None),
            ("a%+2", None),
            ("%ff", None),
            ("", Some("")),
        ] {
            assert_eq!(decode(part).as_deref(), text, "{part}");
        }
    }
}
