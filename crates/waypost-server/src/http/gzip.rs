//! Compresses the files of the page as gzip (RFC 1952), with the fixed codes of DEFLATE (RFC 1951).
//!
//! It runs once for each file, so a simple encoder does: with codes made for each file, all of them would be a seventh
//! smaller, for four more crates in the program.

use std::collections::HashMap;

/// The first bytes: gzip, DEFLATE, no name, no time, best compression, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];
const MIN_MATCH: usize = 3;
const MAX_MATCH: usize = 258;
const MAX_DISTANCE: usize = 32 * 1024;
/// How many earlier places with the same beginning are compared.
const MAX_CANDIDATES: usize = 24;
/// A match of this length is good enough.
const LONG_MATCH: usize = 32;
/// The symbol after the last byte.
const END: u32 = 256;

/// The shortest length of each symbol from 257 on, and the number of bits that are added to it.
const LENGTHS: [(usize, u32); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
/// The shortest distance of each symbol, and the number of bits that are added to it.
const DISTANCES: [(usize, u32); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

/// Returns the content as a gzip file.
pub(super) fn compress(content: &[u8]) -> Vec<u8> {
    let mut bits = Bits::default();
    // One block, the last one, with the fixed codes.
    bits.put(1, 1);
    bits.put(1, 2);
    let mut seen = Seen::default();
    let mut at = 0;
    while at < content.len() {
        let found = seen.longest(content, at);
        seen.add(content, at);
        // A longer match that begins one byte later is better.
        let is_better_later = found.is_some_and(|(length, _)| {
            length < LONG_MATCH && seen.longest(content, at + 1).is_some_and(|(later, _)| later > length)
        });
        if let Some((length, distance)) = found.filter(|_| !is_better_later) {
            bits.repetition(length, distance);
            (at + 1..at + length).for_each(|inner| seen.add(content, inner));
            at += length;
        } else {
            bits.symbol(u32::from(content[at]));
            at += 1;
        }
    }
    bits.symbol(END);
    let mut file = HEADER.to_vec();
    file.extend(bits.finish());
    file.extend(checksum(content).to_le_bytes());
    // Modulo 2^32, as the format says.
    file.extend((content.len() as u64).to_le_bytes().iter().take(4));
    file
}

/// The places of each three bytes that were passed.
#[derive(Default)]
struct Seen(HashMap<[u8; MIN_MATCH], Vec<usize>>);

impl Seen {
    fn add(&mut self, content: &[u8], at: usize) {
        if let Some(beginning) = content.get(at..).and_then(<[u8]>::first_chunk) {
            self.0.entry(*beginning).or_default().push(at);
        }
    }

    /// Finds the longest earlier bytes that are the same as those here: their length and distance.
    fn longest(&self, content: &[u8], at: usize) -> Option<(usize, usize)> {
        let rest = content.get(at..)?;
        let places = self.0.get(rest.first_chunk::<MIN_MATCH>()?)?;
        let near = places.iter().rev().take(MAX_CANDIDATES).take_while(|place| at - **place <= MAX_DISTANCE);
        let length = |place: usize| {
            let same = rest.iter().zip(&content[place..]).take(MAX_MATCH);
            same.take_while(|(here, there)| here == there).count()
        };
        // Of equally long ones the nearest, whose distance takes the fewest bits.
        near.map(|place| (length(*place), at - place)).fold(None, |best: Option<(usize, usize)>, found| match best {
            Some(best) if best.0 >= found.0 => Some(best),
            _ => Some(found),
        })
    }
}

/// A sequence of bits, the lowest bit of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    pending: u64,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u32, length: u32) {
        self.pending |= u64::from(value) << self.count;
        self.count += length;
        while self.count >= 8 {
            self.bytes.push(self.pending.to_le_bytes()[0]);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// Codes have their highest bit first.
    fn put_code(&mut self, code: u32, length: u32) {
        self.put(code.reverse_bits() >> (32 - length), length);
    }

    /// Writes a byte, the end, or the symbol of a length.
    fn symbol(&mut self, symbol: u32) {
        match symbol {
            0..=143 => self.put_code(0x30 + symbol, 8),
            144..=255 => self.put_code(0x190 + symbol - 144, 9),
            256..=279 => self.put_code(symbol - 256, 7),
            _ => self.put_code(0xc0 + symbol - 280, 8),
        }
    }

    /// Writes that bytes are repeated.
    fn repetition(&mut self, length: usize, distance: usize) {
        let (symbol, more, bits) = symbol_of(&LENGTHS, length);
        self.symbol(257 + symbol);
        self.put(more, bits);
        let (symbol, more, bits) = symbol_of(&DISTANCES, distance);
        self.put_code(symbol, 5);
        self.put(more, bits);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        self.bytes
    }
}

/// Returns the symbol of a number, the difference to the least number with this symbol, and the bits that it takes.
fn symbol_of(table: &[(usize, u32)], number: usize) -> (u32, u32, u32) {
    let at = table.partition_point(|(least, _)| *least <= number).saturating_sub(1);
    let (least, bits) = table[at];
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (small(at), small(number - least), bits)
}

/// Returns the CRC-32 of the content.
fn checksum(content: &[u8]) -> u32 {
    !content.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the format back. The tests of the program decompress all files of the page with gzip itself.
    fn decompressed(file: &[u8]) -> Vec<u8> {
        let end = file.len() - 8;
        let mut at = HEADER.len() * 8;
        let mut bits = |count: u32| {
            let bit = |place: usize| u32::from(file[place / 8] >> (place % 8) & 1);
            let value = (0..count).map(|number| bit(at + number as usize) << number).sum::<u32>();
            at += count as usize;
            value
        };
        assert_eq!((bits(1), bits(2)), (1, 1), "one block with the fixed codes");
        let mut content: Vec<u8> = Vec::new();
        loop {
            let mut code = (0..7).fold(0, |code, _| code << 1 | bits(1));
            let symbol = if code <= 0b001_0111 {
                256 + code
            } else {
                code = code << 1 | bits(1);
                match code {
                    0x30..=0xbf => code - 0x30,
                    0xc0..=0xc7 => 280 + code - 0xc0,
                    _ => 144 + (code << 1 | bits(1)) - 0x190,
                }
            };
            match symbol {
                END => break,
                0..END => content.push(u8::try_from(symbol).unwrap()),
                _ => {
                    let (least, more) = LENGTHS[symbol as usize - 257];
                    let length = least + bits(more) as usize;
                    let (least, more) = DISTANCES[(0..5).fold(0, |code, _| code << 1 | bits(1)) as usize];
                    let distance = least + bits(more) as usize;
                    (0..length).for_each(|_| content.push(content[content.len() - distance]));
                }
            }
        }
        assert_eq!(at.div_ceil(8), end);
        let word = |from: usize| u32::from_le_bytes(file[from..from + 4].try_into().unwrap());
        assert_eq!((word(end), word(end + 4) as usize), (checksum(&content), content.len()));
        content
    }

    #[test]
    fn the_checksum_is_the_one_of_the_format() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_content_can_be_read_back() {
        let mut seed = 7_u32;
        let mut random = |count: usize, values: u32| -> Vec<u8> {
            let mut next = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                u8::try_from((seed >> 16) % values).unwrap()
            };
            (0..count).map(|_| next()).collect()
        };
        let far = [random(40_000, 256), b"the same words again".repeat(3), random(33_000, 3)].concat();
        let same = vec![0; 100_000];
        let contents =
            [Vec::new(), b"a".to_vec(), b"abcabcabcabc".to_vec(), (0..=255).collect(), far, same, random(5_000, 2)];
        for content in contents {
            let compressed = compress(&content);
            assert_eq!(decompressed(&compressed), content, "{} bytes", content.len());
        }
        assert!(compress(&vec![0; 100_000]).len() < 1_000);
    }

    #[test]
    fn every_length_and_distance_has_its_symbol() {
        for (length, symbol) in
            [(3, (0, 0, 0)), (10, (7, 0, 0)), (12, (8, 1, 1)), (257, (27, 30, 5)), (258, (28, 0, 0))]
        {
            assert_eq!(symbol_of(&LENGTHS, length), symbol, "{length}");
        }
        for (distance, symbol) in [(1, (0, 0, 0)), (4, (3, 0, 0)), (6, (4, 1, 1)), (32_768, (29, 8_191, 13))] {
            assert_eq!(symbol_of(&DISTANCES, distance), symbol, "{distance}");
        }
    }
}
