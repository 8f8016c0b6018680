//! Removes secrets from text that is about to be written: tokens in known formats, passwords in URLs and in assignments, private
//! keys, and the values of variables that the user named.
//!
//! A terminal does not show everything that is written: a secret may be cut by the escape code of a colour, by characters without
//! width, or by a backspace. So secrets are looked for in the text as it is, and in the text as it is shown (`Shown`).
//!
//! Each byte is looked at a limited number of times: a prefix is compared, a secret that was found is skipped, and a search that may
//! find nothing has a maximum.

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

/// Maximum size of a password in a URL.
const MAX_PASSWORD_BYTES: usize = 1_024;
/// Maximum size of the value of an assignment.
const MAX_ASSIGNED_BYTES: usize = 4_096;
/// Minimum size of the value of an assignment.
const MIN_ASSIGNED_BYTES: usize = 4;

const KEY_BEGIN: &[u8] = b"-----BEGIN ";
/// The ends of the first lines of private keys. The last two are those of PGP.
const KEY_TITLE_ENDS: [&[u8]; 3] = [b"PRIVATE KEY-----", b"PRIVATE KEY BLOCK-----", b"SECRET KEY BLOCK-----"];
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

fn is_upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

/// The formats, longer prefixes before their beginnings.
const FORMATS: &[Format] = &[
    format("wayt_", 32, is_alphanumeric),
    format("ways_", 32, is_alphanumeric),
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
    format("xoxe-", 20, is_word),
    format("AKIA", 16, is_upper),
    format("ASIA", 16, is_upper),
    format("AGE-SECRET-KEY-1", 50, is_upper),
    format("AIza", 35, is_word),
    format("npm_", 36, is_alphanumeric),
    format("pypi-", 50, is_word),
    format("hf_", 30, is_alphanumeric),
    format("dop_v1_", 64, is_alphanumeric),
    format("dckr_pat_", 20, is_word),
    format("dckr_oat_", 20, is_word),
    format("SG.", 40, is_web_token),
    format("hvs.", 24, is_word),
    format("glsa_", 32, is_word),
    format("shpat_", 32, is_alphanumeric),
    format("ya29.", 30, is_word),
    format("lin_api_", 32, is_alphanumeric),
    format("rubygems_", 40, is_alphanumeric),
    format("whsec_", 24, is_bearer),
    format("sk_test_", 20, is_alphanumeric),
    format("rk_test_", 20, is_alphanumeric),
    format("eyJ", 60, is_web_token),
    format("Bearer ", 20, is_bearer),
];

/// Ends of the names of variables and options whose values are secret, with the sign of an assignment. Names in lower case are
/// also words of programs and of prose, so they count only where an option, a query or a connection string has them.
const ASSIGNMENTS: &[&str] = &[
    "PASSWORD=",
    "PASSWD=",
    "PASSPHRASE=",
    "_PASS=",
    "_PWD=",
    "SECRET=",
    "TOKEN=",
    "API_KEY=",
    "APIKEY=",
    "ACCESS_KEY=",
    "SECRET_KEY=",
    "PRIVATE_KEY=",
    "AUTH_KEY=",
    "CREDENTIALS=",
    "--password=",
    "--passwd=",
    "--token=",
    "--secret=",
    "--api-key=",
    " password=",
    "&password=",
    "?password=",
    ";password=",
    "&token=",
    "?token=",
    "&access_token=",
    "?access_token=",
    "&api_key=",
    "?api_key=",
];

/// A secret in a text.
#[derive(Clone, Copy)]
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
        let spans = self.found(text.as_bytes());
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
            Value::String(text) => !self.found(text.as_bytes()).is_empty(),
            Value::Array(items) => items.iter().any(|item| self.is_in_json(item, except)),
            Value::Object(fields) => {
                fields.iter().any(|(name, field)| !except.contains(&name.as_str()) && self.is_in_json(field, except))
            }
            _ => false,
        }
    }

    /// Returns the secrets in a text, as it is and as it is shown, in order of their beginnings.
    fn found(&self, bytes: &[u8]) -> Vec<Span> {
        let mut spans = self.spans(bytes);
        if let Some(shown) = Shown::of(bytes) {
            spans.extend(self.spans(&shown.bytes).iter().map(|span| shown.original(span, bytes.len())));
            spans.sort_by_key(|span| (span.begin, span.end));
        }
        spans
    }

    /// Returns the secrets in a text as it is.
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
            let title = &rest[..rest.len().min(MAX_KEY_LINE_BYTES)];
            let ends = KEY_TITLE_ENDS.iter().filter_map(|end| Some(find(title, end)? + end.len()));
            let begin = ends.min()?;
            let end = find_shown(&rest[begin..], KEY_END).map_or(rest.len(), |end| begin + end);
            return (end > begin).then_some((at + begin, at + end));
        }
        if let Some(name) = ASSIGNMENTS.iter().find(|name| rest.starts_with(name.as_bytes())) {
            return assigned(rest, name.len()).map(|(begin, end)| (at + begin, at + end));
        }
        if at > 0 && is_word(bytes[at - 1]) {
            return None;
        }
        let format = FORMATS.iter().find(|format| rest.starts_with(format.prefix.as_bytes()))?;
        let begin = format.prefix.len();
        let size = rest[begin..].iter().take_while(|byte| (format.accepts)(**byte)).count();
        let is_token = size >= format.min_bytes
            // A web token has three parts.
            && (format.prefix != "eyJ" || rest[begin..begin + size].split(|byte| *byte == b'.').count() == 3)
            && (format.prefix != "SG." || rest[begin..begin + size].contains(&b'.'));
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
        if is_begun(URL, &|byte| !ends_url(byte)) || is_begun(KEY_BEGIN, &|byte| byte != b'\n') {
            return true;
        }
        // A value that begins with a quotation mark ends with the line, if not with the next mark.
        let is_quoted = |value: &[u8]| value.first().is_some_and(|first| b"\"'".contains(first));
        let is_open = |name: &&str| match rest.strip_prefix(name.as_bytes()) {
            Some(value) if is_quoted(value) => !value[1..].iter().any(|byte| *byte == value[0] || *byte == b'\n'),
            Some(value) => !value.iter().any(u8::is_ascii_whitespace),
            None => name.as_bytes().starts_with(rest),
        };
        if ASSIGNMENTS.iter().any(is_open) {
            return true;
        }
        let is_within_word = at > 0 && is_word(bytes[at - 1]);
        !is_within_word && FORMATS.iter().any(|format| is_begun(format.prefix.as_bytes(), &format.accepts))
    }
}

fn ends_url(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'<>`".contains(&byte)
}

/// Returns the password of a URL, whose text begins with `://`. Passwords that should have been encoded contain any of `@/?#`, so it
/// ends at the last `@`: rather too much is removed than too little.
fn password(rest: &[u8]) -> Option<(usize, usize)> {
    let authority = &rest[URL.len()..];
    let colon =
        authority.iter().take(MAX_PASSWORD_BYTES).position(|byte| ends_url(*byte) || b":/?#@".contains(byte))?;
    if authority[colon] != b':' {
        return None;
    }
    let value = &authority[colon + 1..];
    let digits = value.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    // A port, and a path that may contain an `@`.
    if (1..=5).contains(&digits) && value.get(digits).is_none_or(|byte| ends_url(*byte) || b"/?#".contains(byte)) {
        return None;
    }
    let value = &value[..value.len().min(MAX_PASSWORD_BYTES)];
    let value = &value[..value.iter().position(|byte| ends_url(*byte)).unwrap_or(value.len())];
    let end = value.iter().rposition(|byte| *byte == b'@').filter(|end| *end > 0)?;
    let begin = URL.len() + colon + 1;
    Some((begin, begin + end))
}

/// Returns the value of an assignment after a name with its sign, unless it is a reference to a variable or a word that is not a secret.
fn assigned(rest: &[u8], name: usize) -> Option<(usize, usize)> {
    let value = &rest[name..rest.len().min(name + MAX_ASSIGNED_BYTES)];
    let quote = value.first().copied().filter(|first| b"\"'".contains(first));
    let value = if quote.is_some() { &value[1..] } else { value };
    let is_option = rest[..name].iter().any(u8::is_ascii_lowercase);
    let ends = |byte: &u8| match quote {
        Some(quote) => *byte == quote || *byte == b'\n',
        None => byte.is_ascii_whitespace() || is_option && b"&;?\"'`,)".contains(byte),
    };
    let value = &value[..value.iter().position(ends).unwrap_or(value.len())];
    let is_reference = |value: &[u8]| match value {
        [b'$', b'{' | b'(', ..] | [b'%' | b'<' | b'*' | b'[', ..] => true,
        [b'$', name @ ..] => name.iter().all(|byte| is_word(*byte)),
        _ => false,
    };
    // In prose and programs, a word is more often a name.
    let is_name = rest[0] == b' ' && value.iter().all(|byte| byte.is_ascii_alphabetic() || b"_.".contains(byte));
    let is_plain =
        is_name || [&b"true"[..], b"false", b"null", b"none", b"None"].contains(&value) || is_reference(value);
    let begin = name + usize::from(quote.is_some());
    (value.len() >= MIN_ASSIGNED_BYTES && !is_plain).then_some((begin, begin + value.len()))
}

/// A text as a terminal shows it: without escape codes and characters without width, and without characters that a backspace
/// removes.
struct Shown {
    bytes: Vec<u8>,
    /// Where each byte is in the text.
    places: Vec<usize>,
    /// Where a sequence begins whose end has not arrived.
    open: Option<usize>,
}

impl Shown {
    /// None if the text is shown as it is.
    fn of(bytes: &[u8]) -> Option<Shown> {
        if !bytes.iter().any(|byte| matches!(byte, 0x1b | 0x08 | 0x7f | 0xc2 | 0xcd | 0xe1 | 0xe2 | 0xef)) {
            return None;
        }
        let mut shown = Shown { bytes: Vec::with_capacity(bytes.len()), places: Vec::new(), open: None };
        let mut at = 0;
        while at < bytes.len() {
            match hidden(&bytes[at..]) {
                Hidden::No => {
                    shown.bytes.push(bytes[at]);
                    shown.places.push(at);
                    at += 1;
                }
                Hidden::Backspace => {
                    while let Some(byte) = shown.bytes.pop() {
                        shown.places.pop();
                        // A character may have several bytes.
                        if byte & 0xc0 != 0x80 {
                            break;
                        }
                    }
                    at += 1;
                }
                Hidden::Bytes(size) => at += size,
                Hidden::Open => {
                    shown.open = Some(at);
                    break;
                }
            }
        }
        (shown.bytes.len() < bytes.len()).then_some(shown)
    }

    /// Returns where an offset of what is shown is in the text.
    fn place(&self, at: usize, len: usize) -> usize {
        self.places.get(at).copied().unwrap_or(len)
    }

    /// Returns the place of a secret in the text.
    fn original(&self, span: &Span, len: usize) -> Span {
        let is_last = span.end == self.bytes.len() && span.is_key;
        let end = if is_last { len } else { self.place(span.end - 1, len) + 1 };
        Span {
            at: self.place(span.at, len),
            begin: self.place(span.begin, len),
            end: end.min(len),
            is_key: span.is_key,
        }
    }
}

/// What a terminal does not show at the beginning of a text.
enum Hidden {
    No,
    Backspace,
    /// A sequence of this size.
    Bytes(usize),
    /// A sequence whose end is missing.
    Open,
}

/// Maximum size of an escape sequence. A longer one is shown.
const MAX_SEQUENCE_BYTES: usize = 256;

fn hidden(rest: &[u8]) -> Hidden {
    let sequence = |from: usize, ends: &dyn Fn(usize) -> Option<usize>| {
        let limit = rest.len().min(MAX_SEQUENCE_BYTES);
        match (from..limit).find_map(ends) {
            Some(end) => Hidden::Bytes(end),
            None if rest.len() < MAX_SEQUENCE_BYTES => Hidden::Open,
            None => Hidden::No,
        }
    };
    match rest {
        [0x08 | 0x7f, ..] => Hidden::Backspace,
        // Codes with parameters.
        [0x1b, b'[', ..] => sequence(2, &|at| (0x40..=0x7e).contains(&rest[at]).then_some(at + 1)),
        // Texts for the terminal, such as links.
        [0x1b, b']' | b'P' | b'^' | b'_' | b'X', ..] => sequence(2, &|at| match rest[at..] {
            [0x07, ..] => Some(at + 1),
            [0x1b, b'\\', ..] => Some(at + 2),
            _ => None,
        }),
        // Sets of characters; and characters without width: joiners, bidirectional marks, byte order mark, variants.
        [0x1b, b'(' | b')' | b'#' | b'%' | b' ', _, ..]
        | [0xe1, 0xa0, 0x8e, ..]
        | [0xe2, 0x80, 0x8b..=0x8f | 0xaa..=0xae, ..]
        | [0xe2, 0x81, 0xa0..=0xaf, ..]
        | [0xef, 0xbb, 0xbf, ..]
        | [0xef, 0xb8, 0x80..=0x8f, ..] => Hidden::Bytes(3),
        // The beginnings of these.
        [0x1b | 0xc2 | 0xcd | 0xe1 | 0xe2 | 0xef]
        | [0x1b, b'(' | b')' | b'#' | b'%' | b' ']
        | [0xe1, 0xa0]
        | [0xe2, 0x80 | 0x81]
        | [0xef, 0xbb | 0xb8] => Hidden::Open,
        // Other codes, the soft hyphen, and the grapheme joiner.
        [0x1b, ..] | [0xc2, 0xad, ..] | [0xcd, 0x8f, ..] => Hidden::Bytes(2),
        _ => Hidden::No,
    }
}

/// Finds bytes in a text, as it is or as it is shown.
fn find_shown(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    find(bytes, wanted).or_else(|| {
        let shown = Shown::of(bytes)?;
        Some(shown.place(find(&shown.bytes, wanted)?, bytes.len()))
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn replace(bytes: &[u8], spans: &[Span]) -> Vec<u8> {
    let mut redacted = Vec::with_capacity(bytes.len());
    let mut last = 0;
    for span in spans {
        // The one before may reach into it, and has one mark with it.
        if span.begin >= last && span.begin < span.end {
            redacted.extend_from_slice(&bytes[last..span.begin]);
            redacted.extend_from_slice(REDACTED.as_bytes());
        }
        last = last.max(span.end);
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
        let until = self.ready_until();
        let rest = self.held.split_off(until);
        let ready = std::mem::replace(&mut self.held, rest);
        self.redact(&ready)
    }

    /// Returns the size of the part that can be written.
    fn ready_until(&self) -> usize {
        let len = self.held.len();
        let Some(shown) = Shown::of(&self.held) else {
            return self.uncut(&self.held, self.secrets.held_from(&self.held));
        };
        // A sequence that never ends must not fill the memory.
        let open = shown.open.filter(|open| len - open < MAX_SEQUENCE_BYTES).unwrap_or(len);
        let held_from = shown.place(self.secrets.held_from(&shown.bytes), len);
        let mut until = self.secrets.held_from(&self.held).min(open).min(held_from);
        // A cut between two secrets of one view may be within one of the other.
        loop {
            let place = shown.places.partition_point(|place| *place < until);
            let cut = shown.place(self.uncut(&shown.bytes, place), len);
            let next = self.uncut(&self.held, until.min(cut));
            if next == until {
                return until;
            }
            until = next;
        }
    }

    /// Returns where to cut a text, at an offset or before it, so that neither a secret nor the mark of the end of a key is cut.
    fn uncut(&self, bytes: &[u8], mut until: usize) -> usize {
        if self.is_in_key || find(bytes, KEY_BEGIN).is_some() {
            let is_cut = |size: &usize| bytes[..until].ends_with(&KEY_END[..*size]);
            until -= (1..KEY_END.len()).rev().find(is_cut).unwrap_or(0);
        }
        if until < bytes.len() { self.secrets.uncut(bytes, until) } else { until }
    }

    /// Returns the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let ready = std::mem::take(&mut self.held);
        self.redact(&ready)
    }

    fn redact(&mut self, ready: &[u8]) -> Vec<u8> {
        let mut ready = ready;
        if self.is_in_key {
            match find_shown(ready, KEY_END) {
                Some(end) => ready = &ready[end..],
                None => return Vec::new(),
            }
            self.is_in_key = false;
        }
        let spans = self.secrets.found(ready);
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
            .filter(|format| !["eyJ", "SG."].contains(&format.prefix))
            .map(|format| format!("{}{}", format.prefix, long[..format.min_bytes].to_ascii_uppercase()))
            .chain([web_token, format!("SG.{}.{}", &long[..22], &long[..43])])
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
            "http://localhost:5173/@vite/client",
            "http://localhost:3000/a?b=c@d",
            "https://example.org/?a=b:c@d",
            "MAX_TOKENS=4096 TOKENS=12345",
            "GITHUB_TOKEN=$TOKEN PASSWORD=${PASSWORD} TOKEN=${{ secrets.X }}",
            "HAS_PASSWORD=true API_KEY= SECRET=x",
            "Client(token=self.token, password=password)",
            "set the password=",
            "SG.png SG.short-name dckr_pat_x",
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\nabc\n-----END PGP PUBLIC KEY BLOCK-----",
            "\u{1b}[31mred\u{1b}[0m text, a\u{200b}b and a\u{8}b",
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
            ("postgres://me:p@ss@db/x", "postgres://me:[redacted]@db/x"),
            ("postgres://me:p/a#s?s@db/x", "postgres://me:[redacted]@db/x"),
            ("postgres://me:12/34@db:5432/x y@z", "postgres://me:12/34@db:5432/x y@z"),
            ("redis://:secret@db 'http://a:b@c'", "redis://:[redacted]@db 'http://a:[redacted]@c'"),
            ("amqp://a:123456@b", "amqp://a:[redacted]@b"),
            ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[redacted] psql"),
            ("export MYSQL_PWD='a b;c' x", "export MYSQL_PWD='[redacted]' x"),
            ("AWS_SECRET_ACCESS_KEY=a/b+c==\nB=1", "AWS_SECRET_ACCESS_KEY=[redacted]\nB=1"),
            ("X_TOKEN=\"abcd\";Y", "X_TOKEN=\"[redacted]\";Y"),
            ("way --token=abcd,x", "way --token=[redacted],x"),
            ("host=h password=hunter2 port=1", "host=h password=[redacted] port=1"),
            ("GET /x?token=abcd&y=1", "GET /x?token=[redacted]&y=1"),
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ\n-----END PGP PRIVATE KEY BLOCK-----\nz",
                "-----BEGIN PGP PRIVATE KEY BLOCK-----[redacted]-----END PGP PRIVATE KEY BLOCK-----\nz",
            ),
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
    fn a_secret_that_a_terminal_shows_whole_is_redacted() {
        let secrets = Secrets::new(["hunter22-canary".to_owned()]);
        let (one, two) = ("0123456789abcdefgh", "ABCDEFGHIJKLMNOPQR");
        for cut in [
            "\u{1b}[0m",
            "\u{1b}[38;5;196m",
            "\u{1b}]8;;http://x\u{7}",
            "\u{1b}]0;t\u{1b}\\",
            "\u{1b}(B",
            "\u{1b}7",
            "\u{200b}",
            "\u{200d}\u{2060}",
            "\u{feff}",
            "\u{ad}",
            "x\u{8}",
            "é\u{7f}",
        ] {
            for (text, rest) in [
                (format!("a ghp_{one}{cut}{two} b"), [one, two]),
                (format!("a gh{cut}p_{one}{two} b"), [one, two]),
                (format!("a hunter22{cut}-canary b"), ["hunter22", "canary"]),
                (format!("postgres://u:{one}{cut}{two}@h b"), [one, two]),
                (format!("PGPASS{cut}WORD={one}{two} b"), [one, two]),
                (format!("-----BEGIN {cut}PRIVATE KEY-----\n{one}{two}\n-----END{cut} PRIVATE KEY----- b"), [one, two]),
            ] {
                let redacted = secrets.redact(&text);
                let is_gone = |text: &str| rest.iter().all(|part| !text.contains(part)) && text.ends_with(" b");
                assert!(is_gone(&redacted), "{text:?}: {redacted:?}");
                // What a backspace removes may have been written before it arrives.
                let is_late = |at: usize| {
                    let within = |(from, _): (usize, &str)| at > from && at < from + cut.len();
                    cut.ends_with(['\u{8}', '\u{7f}']) && text.match_indices(cut).any(within)
                };
                for at in (text.len() % 4..text.len()).step_by(4).filter(|at| !is_late(*at)) {
                    let mut redactor = Redactor::new(secrets.clone());
                    let mut written = redactor.push(&text.as_bytes()[..at]);
                    written.extend(redactor.push(&text.as_bytes()[at..]));
                    written.extend(redactor.finish());
                    let written = String::from_utf8_lossy(&written).into_owned();
                    assert!(is_gone(&written), "{text:?} cut at {at}: {written:?}");
                }
            }
        }
    }

    #[test]
    fn text_that_repeats_the_beginnings_of_secrets_costs_linear_time() {
        let secrets = Secrets::new(["hunter22-canary".to_owned()]);
        for piece in [
            "://:",
            "://a:b",
            "TOKEN=$(",
            "TOKEN=\"",
            "-----BEGIN ",
            "\u{1b}[",
            "\u{1b}]",
            "x\u{8}",
            "ghp_",
            "?token=",
            "eyJ",
            "\u{200b}",
        ] {
            let time = |count: usize| {
                let text = piece.repeat(count);
                let began = std::time::Instant::now();
                let _ = secrets.redact(&text);
                began.elapsed()
            };
            let (short, long) = (time(300), time(4_800));
            // Sixteen times the text; quadratic time would be 256 times as much.
            assert!(long < short * 100 + std::time::Duration::from_millis(100), "{piece:?}: {short:?}, {long:?}");
        }
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
            number in 0..60_usize, before in "[a-z \n]{0,20}", cuts in proptest::collection::vec(0..300_usize, 0..6),
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
