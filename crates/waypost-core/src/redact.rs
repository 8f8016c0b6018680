//! Removes secrets from text that is about to be written: tokens in known formats, passwords in URLs, private keys, and the
//! values of variables that the user named.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::seeded::seeded_bug;

/// Stands for a secret.
const REDACTED: &str = "[redacted]";
/// Minimum size of a value of a variable: shorter ones are in other words too.
const MIN_VALUE_BYTES: usize = 8;
/// Maximum size of the beginning of a secret that is held back while more output may follow.
const MAX_HELD_BYTES: usize = 4_096;
/// Maximum distance between the beginning and the end of the first line of a private key.
const MAX_KEY_LINE_BYTES: usize = 80;

const KEY_BEGIN: &[u8] = b"-----BEGIN ";
const KEY_TITLE_END: &[u8] = b"PRIVATE KEY-----";
const KEY_END: &[u8] = b"-----END ";
const URL: &[u8] = b"://";

/// A known format of tokens: a prefix, and at least this many characters of a kind.
struct Format {
    prefix: &'static str,
    min_bytes: usize,
    accepts: fn(u8) -> bool,
}

const fn format(prefix: &'static str, min_bytes: usize, accepts: fn(u8) -> bool) -> Format {
    Format { prefix, min_bytes, accepts }
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_bearer(byte: u8) -> bool {
    is_word(byte) || b".~+/=".contains(&byte)
}

fn is_web_token(byte: u8) -> bool {
    is_word(byte) || byte == b'.'
}

/// The formats, longer prefixes before their beginnings.
const FORMATS: &[Format] = &[
    format("wayt_", 32, is_alphanumeric),
    format("wpj_", 32, is_alphanumeric),
    format("github_pat_", 40, is_word),
    format("ghp_", 30, is_alphanumeric),
    format("gho_", 30, is_alphanumeric),
    format("ghu_", 30, is_alphanumeric),
    format("ghs_", 30, is_alphanumeric),
    format("ghr_", 30, is_alphanumeric),
    format("glpat-", 20, is_word),
    format("glrt-", 20, is_word),
    format("sk-ant-", 20, is_word),
    format("sk-proj-", 20, is_word),
    format("sk-or-", 20, is_word),
    format("sk-", 32, is_alphanumeric),
    format("sk_live_", 20, is_alphanumeric),
    format("rk_live_", 20, is_alphanumeric),
    format("xoxb-", 20, is_word),
    format("xoxp-", 20, is_word),
    format("xoxa-", 20, is_word),
    format("xoxr-", 20, is_word),
    format("xoxs-", 20, is_word),
    format("xapp-", 20, is_word),
    format("AKIA", 16, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
    format("ASIA", 16, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
    format("AIza", 35, is_word),
    format("npm_", 36, is_alphanumeric),
    format("pypi-", 50, is_word),
    format("hf_", 30, is_alphanumeric),
    format("dop_v1_", 64, is_alphanumeric),
    format("eyJ", 60, is_web_token),
    format("Bearer ", 20, is_bearer),
];

/// A secret in a text.
struct Span {
    /// Where the prefix begins by which it is recognized.
    at: usize,
    /// Where the secret itself begins.
    begin: usize,
    /// Where it ends.
    end: usize,
    /// Whether it is a private key.
    is_key: bool,
}

/// The values that are secret, beside the known formats.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[String]>);

/// Shows no secret.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// The values of variables. Short ones are ignored.
    pub fn new(values: impl IntoIterator<Item = String>) -> Secrets {
        let mut values: Vec<String> = values.into_iter().filter(|value| value.len() >= MIN_VALUE_BYTES).collect();
        // A value may contain another one.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Secrets(values.into())
    }

    /// Returns the text without secrets.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text.as_bytes());
        if spans.is_empty() || seeded_bug("keep_secret") {
            return Cow::Borrowed(text);
        }
        let bytes = replace(text.as_bytes(), &spans);
        // Spans begin and end with characters.
        Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|_| REDACTED.to_owned()))
    }

    /// Removes secrets from all texts in a value, except in fields with these names. Returns whether there were any.
    pub fn redact_json(&self, value: &mut Value, except: &[&str]) -> bool {
        match value {
            Value::String(text) => match self.redact(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
            },
            Value::Array(items) => {
                let mut is_found = false;
                for item in items {
                    is_found |= self.redact_json(item, except);
                }
                is_found
            }
            Value::Object(fields) => {
                let mut is_found = false;
                for (_, field) in fields.iter_mut().filter(|(name, _)| !except.contains(&name.as_str())) {
                    is_found |= self.redact_json(field, except);
                }
                is_found
            }
            _ => false,
        }
    }

    /// Returns a value without secrets in its texts, except in fields with these names. Most values have none, and are not
    /// copied.
    pub fn redacted_json<'a>(&self, value: &'a Value, except: &[&str]) -> Cow<'a, Value> {
        if !self.is_in_json(value, except) {
            return Cow::Borrowed(value);
        }
        let mut redacted = value.clone();
        self.redact_json(&mut redacted, except);
        Cow::Owned(redacted)
    }

    fn is_in_json(&self, value: &Value, except: &[&str]) -> bool {
        match value {
            Value::String(text) => !self.spans(text.as_bytes()).is_empty(),
            Value::Array(items) => items.iter().any(|item| self.is_in_json(item, except)),
            Value::Object(fields) => {
                fields.iter().any(|(name, field)| !except.contains(&name.as_str()) && self.is_in_json(field, except))
            }
            _ => false,
        }
    }

    /// Returns the secrets in a text.
    fn spans(&self, bytes: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        self.add_spans(bytes, 0, bytes.len(), &mut spans);
        spans
    }

    /// Adds the secrets that begin, with their prefixes, in a part of a text. Returns where the last one ends, or 0.
    fn add_spans(&self, bytes: &[u8], from: usize, until: usize, spans: &mut Vec<Span>) -> usize {
        let (mut at, mut last) = (from, 0);
        while at < until {
            let Some((begin, end)) = self.span_at(bytes, at) else {
                at += 1;
                continue;
            };
            // The part before it, such as the user in a URL, may contain another one.
            let after = self.add_spans(bytes, at + 1, begin, spans);
            let is_key = bytes[at..].starts_with(KEY_BEGIN) && begin > at;
            spans.push(Span { at, begin, end, is_key });
            last = end.max(after);
            at = last.max(at + 1);
        }
        last
    }

    /// Returns the secret that begins, with its prefix, at an offset.
    fn span_at(&self, bytes: &[u8], at: usize) -> Option<(usize, usize)> {
        let rest = &bytes[at..];
        if let Some(value) = self.0.iter().find(|value| rest.starts_with(value.as_bytes())) {
            return Some((at, at + value.len()));
        }
        if rest.starts_with(URL) {
            return password(rest).map(|(begin, end)| (at + begin, at + end));
        }
        if rest.starts_with(KEY_BEGIN) {
            let title = find(&rest[..rest.len().min(MAX_KEY_LINE_BYTES)], KEY_TITLE_END)?;
            let begin = title + KEY_TITLE_END.len();
            let end = find(&rest[begin..], KEY_END).map_or(rest.len(), |end| begin + end);
            return (end > begin).then_some((at + begin, at + end));
        }
        if at > 0 && is_word(bytes[at - 1]) {
            return None;
        }
        let format = FORMATS.iter().find(|format| rest.starts_with(format.prefix.as_bytes()))?;
        let begin = format.prefix.len();
        let size = rest[begin..].iter().take_while(|byte| (format.accepts)(**byte)).count();
        let is_token = size >= format.min_bytes
            // A web token has three parts.
            && (format.prefix != "eyJ" || rest[begin..begin + size].split(|byte| *byte == b'.').count() == 3);
        is_token.then_some((at + begin, at + begin + size))
    }

    /// Returns from where on the end of a text may be the beginning of a secret.
    fn held_from(&self, bytes: &[u8]) -> usize {
        let first = bytes.len().saturating_sub(MAX_HELD_BYTES);
        (first..bytes.len()).find(|at| self.may_begin_at(bytes, *at)).unwrap_or(bytes.len())
    }

    /// Returns where to cut a text, at an offset or before it, so that no secret that is complete is cut.
    fn uncut(&self, bytes: &[u8], mut until: usize) -> usize {
        let mut spans = Vec::new();
        self.add_spans(bytes, 0, until, &mut spans);
        let is_cut = |span: &Span, until: usize| match until.checked_sub(span.at) {
            None | Some(0) => false,
            // A private key may be cut, but not its first line.
            Some(_) if span.is_key => until < span.begin,
            // A token without an end must not fill the memory.
            Some(size) => until < span.end && (span.begin == span.at || size <= MAX_HELD_BYTES),
        };
        // Where one begins may be within the prefix of another.
        while let Some(at) = spans.iter().filter(|span| is_cut(span, until)).map(|span| span.at).min() {
            until = at;
        }
        until
    }

    fn may_begin_at(&self, bytes: &[u8], at: usize) -> bool {
        let rest = &bytes[at..];
        let is_begun = |prefix: &[u8], accepts: &dyn Fn(u8) -> bool| match rest.strip_prefix(prefix) {
            Some(token) => token.iter().all(|byte| accepts(*byte)),
            None => prefix.starts_with(rest),
        };
        if self.0.iter().any(|value| value.as_bytes().starts_with(rest)) {
            return true;
        }
        if is_begun(URL, &|byte| !ends_authority(byte)) || is_begun(KEY_BEGIN, &|byte| byte != b'\n') {
            return true;
        }
        let is_within_word = at > 0 && is_word(bytes[at - 1]);
        !is_within_word && FORMATS.iter().any(|format| is_begun(format.prefix.as_bytes(), &format.accepts))
    }
}

fn ends_authority(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"/?#\"'<>`@".contains(&byte)
}

/// Returns the password of a URL, whose text begins with `://`.
fn password(rest: &[u8]) -> Option<(usize, usize)> {
    let authority = &rest[URL.len()..];
    let end = authority.iter().position(|byte| ends_authority(*byte))?;
    if authority[end] != b'@' {
        return None;
    }
    let colon = authority[..end].iter().position(|byte| *byte == b':')?;
    (colon + 1 < end).then_some((URL.len() + colon + 1, URL.len() + end))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn replace(bytes: &[u8], spans: &[Span]) -> Vec<u8> {
    let mut redacted = Vec::with_capacity(bytes.len());
    let mut last = 0;
    for span in spans {
        // The one before may reach into it.
        let begin = span.begin.max(last);
        if begin < span.end {
            redacted.extend_from_slice(&bytes[last..begin]);
            redacted.extend_from_slice(REDACTED.as_bytes());
            last = span.end;
        }
    }
    redacted.extend_from_slice(&bytes[last..]);
    redacted
}

/// Removes secrets from output that arrives in parts, in which a secret may be cut.
pub struct Redactor {
    secrets: Secrets,
    held: Vec<u8>,
    /// Whether the output is in a private key whose end has not arrived.
    is_in_key: bool,
}

impl Redactor {
    /// Begins at the beginning of the output.
    pub fn new(secrets: Secrets) -> Redactor {
        Redactor { secrets, held: Vec::new(), is_in_key: false }
    }

    /// Takes a part, and returns what can be written: all but an end that may be the beginning of a secret.
    pub fn push(&mut self, part: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(part);
        let mut until = self.secrets.held_from(&self.held);
        if self.is_in_key || find(&self.held, KEY_BEGIN).is_some() {
            // The mark of the end of the key may be cut.
            let is_cut = |size: &usize| self.held.ends_with(&KEY_END[..*size]);
            let cut = (1..KEY_END.len()).rev().find(is_cut).unwrap_or(0);
            until = until.min(self.held.len() - cut);
        }
        if until < self.held.len() {
            until = self.secrets.uncut(&self.held, until);
        }
        let rest = self.held.split_off(until);
        let ready = std::mem::replace(&mut self.held, rest);
        self.redact(&ready)
    }

    /// Returns the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let ready = std::mem::take(&mut self.held);
        self.redact(&ready)
    }

    fn redact(&mut self, ready: &[u8]) -> Vec<u8> {
        let mut ready = ready;
        if self.is_in_key {
            match find(ready, KEY_END) {
                Some(end) => ready = &ready[end..],
                None => return Vec::new(),
            }
            self.is_in_key = false;
        }
        let spans = self.secrets.spans(ready);
        // Only a private key without its end reaches the end of the part.
        self.is_in_key = spans.iter().any(|span| span.is_key && span.end == ready.len());
        replace(ready, &spans)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples() -> Vec<String> {
        let long = "0123456789abcdef".repeat(5);
        let web_token = format!("eyJ{}.eyJ{}.{}", &long[..20], &long[..30], &long[..20]);
        FORMATS
            .iter()
            .filter(|format| format.prefix != "eyJ")
            .map(|format| format!("{}{}", format.prefix, long[..format.min_bytes].to_ascii_uppercase()))
            .chain([web_token])
            .collect()
    }

    #[test]
    fn tokens_in_known_formats_are_redacted_and_keep_their_prefix() {
        let secrets = Secrets::default();
        for sample in samples() {
            let text = format!("before {sample}\nafter");
            let redacted = secrets.redact(&text);
            assert!(redacted.contains(REDACTED) && !redacted.contains(&sample), "{sample}: {redacted}");
            assert!(redacted.starts_with("before ") && redacted.ends_with("\nafter"), "{redacted}");
        }
        for plain in [
            "task-0123456789abcdef0123456789abcdef0123",
            "https://example.org/a:b@c",
            "http://example.org:8080/x",
            "git@example.org:team/repo.git",
            "Bearer of news",
            "sk-short",
            "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
            "wf_0a1b2c3d4e5f rp_0a1b2c3d4e5f",
            "0123456789abcdef0123456789abcdef01234567",
        ] {
            assert_eq!(secrets.redact(plain), plain);
        }
    }

    #[test]
    fn passwords_keys_and_named_values_are_redacted() {
        let secrets = Secrets::new(["hunter22-canary".to_owned(), "short".to_owned()]);
        for (text, redacted) in [
            ("x=hunter22-canary; short", "x=[redacted]; short"),
            ("postgres://me:secret@db/x", "postgres://me:[redacted]@db/x"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nz",
                "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nz",
            ),
        ] {
            assert_eq!(secrets.redact(text), redacted);
        }
        assert!(!format!("{secrets:?}").contains("hunter22"));
        let mut value = serde_json::json!({ "a": ["hunter22-canary"], "command": "hunter22-canary", "n": 1 });
        assert!(secrets.redact_json(&mut value, &["command"]));
        assert_eq!(value, serde_json::json!({ "a": [REDACTED], "command": "hunter22-canary", "n": 1 }));
        assert!(!secrets.redact_json(&mut value, &["command"]));
    }

    #[test]
    fn a_secret_in_the_prefix_of_another_is_redacted() {
        let secrets = Secrets::new(["hunter22-canary".to_owned()]);
        let token = format!("ghp_{}", "0123456789".repeat(4));
        for (text, redacted) in [
            ("https://hunter22-canary:x-oauth-basic@host/r".to_owned(), "https://[redacted]:[redacted]@host/r"),
            (format!("https://{token}:x-oauth-basic@host/r"), "https://ghp_[redacted]:[redacted]@host/r"),
            (format!("https://{token}@host/r"), "https://ghp_[redacted]@host/r"),
            (
                "-----BEGIN hunter22-canary PRIVATE KEY-----\nMII\n-----END x".to_owned(),
                "-----BEGIN [redacted] PRIVATE KEY-----[redacted]-----END x",
            ),
        ] {
            assert_eq!(secrets.redact(&text), redacted);
            for cut in 0..text.len() {
                let mut redactor = Redactor::new(secrets.clone());
                let mut written = redactor.push(&text.as_bytes()[..cut]);
                written.extend(redactor.push(&text.as_bytes()[cut..]));
                written.extend(redactor.finish());
                assert_eq!(String::from_utf8(written).unwrap(), redacted, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_value_that_reaches_from_the_first_line_of_a_key_into_the_key_hides_the_rest_too() {
        let value = "KEY-----\nfirst";
        let mut redactor = Redactor::new(Secrets::new([value.to_owned()]));
        let mut written = redactor.push(b"-----BEGIN PRIVATE KEY-----\nfirst");
        written.extend(redactor.push(b"second\nthird\n-----END"));
        written.extend(redactor.push(b" PRIVATE KEY-----\n"));
        written.extend(redactor.finish());
        let written = String::from_utf8(written).unwrap();
        assert!(!written.contains("second") && !written.contains("third") && !written.contains(value), "{written}");
        assert!(written.ends_with("-----END PRIVATE KEY-----\n"), "{written}");
    }

    #[test]
    fn a_value_is_copied_only_if_it_has_a_secret() {
        let secrets = Secrets::new(["hunter22-canary".to_owned()]);
        let clean = serde_json::json!({ "a": ["text"], "command": "hunter22-canary", "n": 1 });
        assert!(matches!(secrets.redacted_json(&clean, &["command"]), Cow::Borrowed(_)));
        let redacted = secrets.redacted_json(&clean, &[]);
        assert_eq!(*redacted, serde_json::json!({ "a": ["text"], "command": REDACTED, "n": 1 }));
    }

    #[test]
    fn output_that_cannot_be_a_secret_is_not_held_back() {
        let mut redactor = Redactor::new(Secrets::new(["canary-0123".to_owned()]));
        for part in ["hello", " 42%\r", "task", "1. done\n"] {
            assert_eq!(redactor.push(part.as_bytes()), part.as_bytes());
        }
        // A URL or a private key may begin with the last character.
        assert_eq!(redactor.push(b"Password:"), b"Password");
        assert_eq!(redactor.push(b" a -"), b": a ");
        assert_eq!(redactor.push(b"b\n"), b"-b\n");
        assert_eq!(redactor.push(b"x can"), b"x ");
        assert_eq!(redactor.push(b"ada"), b"canada");
    }

    #[test]
    fn a_value_that_contains_the_beginning_of_another_secret_is_redacted_whole() {
        for value in ["before-----BEGIN 2", "name=https://user:part", "xx ghp_0123456789"] {
            let mut redactor = Redactor::new(Secrets::new([value.to_owned()]));
            let mut output = redactor.push(format!("a {value}").as_bytes());
            output.extend(redactor.push(b"-z- b"));
            output.extend(redactor.finish());
            assert_eq!(String::from_utf8(output).unwrap(), "a [redacted]-z- b", "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_secret_is_redacted_wherever_the_output_is_cut(
            number in 0..35_usize, before in "[a-z \n]{0,20}", cuts in proptest::collection::vec(0..300_usize, 0..6),
        ) {
            let mut samples = samples();
            samples.push("value-of-a-variable".to_owned());
            let sample = &samples[number % samples.len()];
            let text = format!("{before} {sample} after\n-----BEGIN PRIVATE KEY-----\n{sample}\n-----END PRIVATE KEY-----\n");
            let secrets = Secrets::new(["value-of-a-variable".to_owned()]);
            let mut redactor = Redactor::new(secrets.clone());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let mut written = Vec::new();
            for part in cuts.windows(2) {
                written.extend(redactor.push(&text.as_bytes()[part[0]..part[1]]));
            }
            written.extend(redactor.finish());
            let written = String::from_utf8(written).unwrap();
            prop_assert_eq!(&written, &*secrets.redact(&text));
            prop_assert!(!written.contains(sample.as_str()));
        }
    }
}
