//! The keys of a terminal, read from the bytes that it sends.

/// A key, or a text that was pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Paste(String),
}

const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// Maximum length of an incomplete sequence. A longer one is no key.
const MAX_SEQUENCE_BYTES: usize = 32;

/// Collects bytes until they are keys.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns whether bytes are left that may be the beginning of a key.
    pub(super) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the next key. With `is_over` no more bytes are expected, so a single escape is the key of this name.
    pub(super) fn next(&mut self, is_over: bool) -> Option<Key> {
        loop {
            let (length, key) = read(&self.bytes, is_over)?;
            self.bytes.drain(..length);
            if key.is_some() {
                return key;
            }
        }
    }
}

/// Returns the number of bytes of the first key, and the key; none if it has no meaning here. None if the bytes are
/// incomplete.
fn read(bytes: &[u8], is_over: bool) -> Option<(usize, Option<Key>)> {
    if bytes.starts_with(PASTE_BEGIN) {
        let rest = &bytes[PASTE_BEGIN.len()..];
        let end = rest.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        return match end {
            Some(end) => {
                let text = String::from_utf8_lossy(&rest[..end]).into_owned();
                Some((PASTE_BEGIN.len() + end + PASTE_END.len(), Some(Key::Paste(text))))
            }
            None if is_over => Some((bytes.len(), Some(Key::Paste(String::from_utf8_lossy(rest).into_owned())))),
            None => None,
        };
    }
    let key = match *bytes.first()? {
        0x1b => return read_sequence(bytes, is_over),
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x7f | 0x08 => Key::Backspace,
        0 | 0x1c..=0x1f => return Some((1, None)),
        byte @ 1..=26 => Key::Ctrl(char::from(b'a' + byte - 1)),
        _ => return read_char(bytes, is_over),
    };
    Some((1, Some(key)))
}

fn read_char(bytes: &[u8], is_over: bool) -> Option<(usize, Option<Key>)> {
    let chunk = bytes.utf8_chunks().next()?;
    if let Some(char) = chunk.valid().chars().next() {
        return Some((char.len_utf8(), Some(Key::Char(char))));
    }
    let is_incomplete = bytes.len() < 4 && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
    if is_incomplete && !is_over { None } else { Some((chunk.invalid().len().max(1), None)) }
}

/// Reads a sequence that begins with an escape.
fn read_sequence(bytes: &[u8], is_over: bool) -> Option<(usize, Option<Key>)> {
    let rest = match bytes {
        [_] if is_over => return Some((1, Some(Key::Escape))),
        [_] => return None,
        [_, b'[' | b'O', rest @ ..] => rest,
        // Escape was pressed before another key, or Alt with it.
        _ => return Some((1, Some(Key::Escape))),
    };
    let Some(at) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        let is_broken = is_over || rest.len() > MAX_SEQUENCE_BYTES;
        return is_broken.then_some((bytes.len(), None));
    };
    let parameters = &rest[..at];
    let number = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    let key = match (rest[at], number) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
        (b'F', _) | (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        _ => None,
    };
    Some((2 + at + 1, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        std::iter::from_fn(|| decoder.next(true)).collect()
    }

    #[test]
    fn bytes_of_a_terminal_become_keys() {
        use Key::{Backspace, Char, Ctrl, Down, End, Enter, Escape, Home, PageDown, PageUp, Paste, Tab, Up};
        assert_eq!(keys(b"jK\r\n\t\x7f\x03"), [Char('j'), Char('K'), Enter, Enter, Tab, Backspace, Ctrl('c')]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~"), [Up, Down, PageUp, PageDown, Home, End]);
        assert_eq!(keys("ü漢".as_bytes()), [Char('ü'), Char('漢')]);
        assert_eq!(keys(b"\x1b[200~a\nb\x1b[201~x"), [Paste("a\nb".to_owned()), Char('x')]);
        assert_eq!(keys(b"\x1b"), [Escape]);
        assert_eq!(keys(b"\x1bx"), [Escape, Char('x')]);
        assert_eq!(keys(b"\x1b[99;5u\x1b[1;5Aq\xff\x00z"), [Up, Char('q'), Char('z')], "others mean nothing");
    }

    #[test]
    fn a_key_may_arrive_in_pieces() {
        let mut decoder = Decoder::default();
        for byte in b"\x1b[" {
            decoder.push(&[*byte]);
            assert_eq!(decoder.next(false), None);
            assert!(decoder.is_waiting());
        }
        decoder.push(b"B");
        assert_eq!(decoder.next(false), Some(Key::Down));
        decoder.push(&"ü".as_bytes()[..1]);
        assert_eq!(decoder.next(false), None);
        decoder.push(&"ü".as_bytes()[1..]);
        assert_eq!(decoder.next(false), Some(Key::Char('ü')));
        assert!(!decoder.is_waiting());
    }

    #[test]
    fn any_bytes_end_in_keys_or_nothing() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let mut decoder = Decoder::default();
                decoder.push(&[0x1b, first, second]);
                while decoder.next(true).is_some() {}
                assert!(!decoder.is_waiting(), "{first} {second}");
            }
        }
    }
}
