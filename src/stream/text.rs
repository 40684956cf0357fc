//! Bytes of one stream → text, and text → what JavaScript takes. Owns UTF-8 across frames, the count of UTF-16 units,
//! which all limits are in, and the two forms of a JavaScript string. How much text is kept, `tail` knows.

use std::fmt::{self, Write as _};

use encoding_rs::mem;

/// Decodes one stream as the WHATWG decoder does, without removing a byte order mark: bytes that are no UTF-8 become
/// U+FFFD, one for each maximal part of a character. Frames, and connections, may cut a character anywhere.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The beginning of a character whose end has not arrived: at most three bytes.
    unfinished: [u8; 4],
    length: usize,
    /// Text that is not in the bytes as they came.
    repaired: String,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that `bytes` complete, in at most two pieces, none of them empty. Valid text is borrowed; a first piece
    /// of its own holds a character that began in an earlier frame.
    pub fn push<'a>(&'a mut self, bytes: &'a [u8]) -> impl Iterator<Item = &'a str> + use<'a> {
        self.repaired.clear();
        let rest = self.complete(bytes);
        let (whole, unfinished) = rest.split_at(rest.len() - unfinished_len(rest));
        if !unfinished.is_empty() {
            self.unfinished[..unfinished.len()].copy_from_slice(unfinished);
            self.length = unfinished.len();
        }
        let valid = simdutf8::basic::from_utf8(whole).unwrap_or_else(|_| {
            push_lossy(&mut self.repaired, whole);
            ""
        });
        [self.repaired.as_str(), valid].into_iter().filter(|piece| !piece.is_empty())
    }

    /// The stream has ended: an unfinished character is one U+FFFD. Otherwise empty.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.length) > 0 { "\u{FFFD}" } else { "" }
    }

    /// Brings an unfinished character to its end and returns the bytes past it.
    fn complete<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while self.length > 0
            && let Some((&byte, rest)) = bytes.split_first()
        {
            self.unfinished[self.length] = byte;
            match std::str::from_utf8(&self.unfinished[..=self.length]) {
                Ok(character) => {
                    self.repaired.push_str(character);
                    self.length = 0;
                }
                // Still a beginning, so fewer than four bytes.
                Err(error) if error.error_len().is_none() => self.length += 1,
                // The beginning leads nowhere, and this byte starts something new.
                Err(_) => {
                    self.repaired.push(char::REPLACEMENT_CHARACTER);
                    self.length = 0;
                    return bytes;
                }
            }
            bytes = rest;
        }
        bytes
    }
}

/// How many bytes at the end are the beginning of a character that later bytes may complete.
fn unfinished_len(bytes: &[u8]) -> usize {
    let is_lead = |byte: &u8| !matches!(byte, 0x80..=0xBF);
    let Some(length) = bytes.iter().rev().take(3).position(is_lead).map(|index| index + 1) else { return 0 };
    match std::str::from_utf8(&bytes[bytes.len() - length..]) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => length,
        _ => 0,
    }
}

/// Appends `bytes`, with U+FFFD for what is not UTF-8.
pub(super) fn push_lossy(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// The units of a character are counted at its first byte: two for those of four bytes, one for all others.
fn units_at(byte: u8) -> u8 {
    u8::from(!matches!(byte, 0x80..=0xBF)) + u8::from(byte >= 0xF0)
}

fn count_units(bytes: &[u8]) -> usize {
    // Sums in vectors of bytes, which overflow no sooner than after 127 rounds of at most 2.
    const LANES: usize = 32;
    let mut total = 0;
    for block in bytes.chunks(127 * LANES) {
        let mut lanes = [0u8; LANES];
        let rows = block.chunks_exact(LANES);
        total += rows.remainder().iter().map(|&byte| usize::from(units_at(byte))).sum::<usize>();
        for row in rows {
            for (lane, &byte) in lanes.iter_mut().zip(row) {
                *lane += units_at(byte);
            }
        }
        total += lanes.iter().map(|&lane| usize::from(lane)).sum::<usize>();
    }
    total
}

/// Text whose UTF-16 units were counted: once, however many parts of the program need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    pub text: &'a str,
    pub units: usize,
}

impl Counted<'_> {
    pub fn is_ascii(self) -> bool {
        self.units == self.text.len()
    }

    /// Cuts after at most `max` bytes, never inside a character.
    pub fn split_bytes(self, max: usize) -> (Self, Self) {
        let (first, rest) = split_bytes(self.text, max);
        // ASCII, or one of the two is empty: nothing has to be counted again.
        let units = if self.is_ascii() || rest.is_empty() {
            first.len().min(self.units)
        } else {
            count_units(first.as_bytes())
        };
        (Self { text: first, units }, Self { text: rest, units: self.units - units })
    }
}

impl<'a> From<&'a str> for Counted<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, units: utf16_len(text) }
    }
}

/// The length that JavaScript would give `text`.
pub fn utf16_len(text: &str) -> usize {
    // Most text is ASCII, and seeing that is faster than counting.
    if text.is_ascii() { text.len() } else { count_units(text.as_bytes()) }
}

/// Cuts after at most `max_units`, never inside a character: the first part is the longest such beginning.
pub fn split_units(text: &str, max_units: usize) -> (&str, &str) {
    // No character has more units than bytes.
    if text.len() <= max_units {
        return (text, "");
    }
    let bytes = text.as_bytes();
    let mut left = max_units;
    let mut at = 0;
    for block in bytes.chunks(1024) {
        let units = count_units(block);
        if units > left {
            break;
        }
        left -= units;
        at += block.len();
    }
    while at < bytes.len() {
        // 0 inside a character that has been counted and fits.
        let units = usize::from(units_at(bytes[at]));
        if units > left {
            break;
        }
        left -= units;
        at += 1;
    }
    text.split_at(at)
}

/// Text as JavaScript engines hold it, ready to be copied: one byte a character where all of it is Latin-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsText {
    Latin1(Vec<u8>),
    Utf16(Vec<u16>),
}

impl JsText {
    /// In UTF-16 units.
    pub fn len(&self) -> usize {
        match self {
            Self::Latin1(bytes) => bytes.len(),
            Self::Utf16(units) => units.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for JsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latin1(bytes) => bytes.iter().try_for_each(|&byte| f.write_char(char::from(byte))),
            Self::Utf16(units) => char::decode_utf16(units.iter().copied())
                .try_for_each(|unit| f.write_char(unit.unwrap_or(char::REPLACEMENT_CHARACTER))),
        }
    }
}

impl From<&str> for JsText {
    fn from(text: &str) -> Self {
        let units = utf16_len(text);
        if is_latin1(text) {
            let mut latin1 = Vec::with_capacity(units);
            push_latin1(&mut latin1, text);
            Self::Latin1(latin1)
        } else {
            let mut utf16 = Vec::with_capacity(units);
            push_utf16(&mut utf16, text);
            Self::Utf16(utf16)
        }
    }
}

/// What is converted at once: small enough for the stack, since the converters want a target as long as the UTF-8.
const BLOCK: usize = 2048;

fn blocks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (block, rest) = split_bytes(text, BLOCK);
        text = rest;
        (!block.is_empty()).then_some(block)
    })
}

/// Cuts after at most `max` bytes, never inside a character.
pub fn split_bytes(text: &str, max: usize) -> (&str, &str) {
    let mut at = max.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.split_at(at)
}

/// `text` must be Latin-1: no character of more than two bytes, and those start with 0xC2 or 0xC3.
fn push_latin1(target: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        target.extend_from_slice(text.as_bytes());
        return;
    }
    let mut converted = [0; BLOCK];
    for block in blocks(text) {
        // Without a branch, since accents come where they like. The first byte of a character of two is written over.
        let (mut length, mut before) = (0, 0);
        for byte in block.bytes() {
            converted[length] = if byte < 0x80 { byte } else { before << 6 | byte & 0x3F };
            length += usize::from(byte < 0xC0);
            before = byte;
        }
        target.extend_from_slice(&converted[..length]);
    }
}

/// Latin-1 is what starts with no byte past 0xC3.
fn is_latin1(text: &str) -> bool {
    text.as_bytes().chunks(BLOCK).all(|block| block.iter().fold(0, |most, &byte| most.max(byte)) < 0xC4)
}

fn push_utf16(target: &mut Vec<u16>, text: &str) {
    let mut converted = [0; BLOCK];
    for block in blocks(text) {
        let length = mem::convert_str_to_utf16(block, &mut converted);
        target.extend_from_slice(&converted[..length]);
    }
}

#[cfg(test)]
mod tests;
