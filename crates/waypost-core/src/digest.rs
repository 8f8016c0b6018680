//! Hexadecimal text, and hashes. Their results are stored, so no algorithm here may change.

use sha2::{Digest as _, Sha256};

/// Writes bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Reads bytes that [`hex`] wrote.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(16 * digit(*high)? + digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// Returns the SHA-256 of bytes.
pub fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the FNV-1a hash of bytes with 64 bits: short and fast, for names that no attacker gains from forging.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the FNV-1a hash of bytes with 128 bits.
pub fn fnv128(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_hexadecimal_and_read_back() {
        let bytes = [0, 9, 10, 0xf0, 255];
        assert_eq!(hex(&bytes), "00090af0ff");
        assert_eq!(from_hex("00090af0ff").unwrap(), bytes);
        assert_eq!((hex(&[]), from_hex("")), (String::new(), Some(Vec::new())));
        for text in ["5", "zz", "+1", "é"] {
            assert_eq!(from_hex(text), None, "{text:?}");
        }
    }

    #[test]
    fn no_hash_changes() {
        assert_eq!(hex(&sha256("abc")[..8]), "ba7816bf8f01cfea");
        assert_eq!((fnv(b""), fnv(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        assert_eq!(fnv128(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
