//! The end of one stream's text, which becomes part of the result. Owns the limit, where the kept text may begin and
//! how it is stored: in a ring, so that a long output costs constant time a byte and no further memory, and in one piece
//! of memory, so that JavaScript can take it over as it is.

use super::text::{Counted, JsText, split_units, utf16_len};
use std::collections::VecDeque;

/// The bytes of a part: what is kept beyond the limit is less than one.
const PART: usize = 65_536;

#[derive(Clone, Debug)]
pub struct Tail {
    limit: usize,
    /// UTF-8.
    text: VecDeque<u8>,
    /// What the text consists of; it begins no earlier than it must: without its first part, less than the limit would be left.
    parts: VecDeque<Part>,
    units: usize,
    dropped: bool,
}

/// Whole characters.
#[derive(Clone, Debug, Default)]
struct Part {
    bytes: usize,
    units: usize,
}

impl Tail {
    pub fn new(limit_units: usize) -> Self {
        Self { limit: limit_units, text: VecDeque::new(), parts: VecDeque::new(), units: 0, dropped: false }
    }

    pub fn push<'a>(&mut self, text: impl Into<Counted<'a>>) {
        let mut text = text.into();
        while !text.text.is_empty() {
            let room = self.parts.back().map_or(0, |last| PART - last.bytes);
            let (fitting, rest) = text.split_bytes(room);
            if fitting.text.is_empty() {
                self.parts.push_back(Part::default());
                continue;
            }
            if let Some(last) = self.parts.back_mut() {
                last.bytes += fitting.text.len();
                last.units += fitting.units;
                self.units += fitting.units;
            }
            self.make_room(fitting.text.len());
            self.text.extend(fitting.text.as_bytes());
            text = rest;
            self.trim();
        }
    }

    /// Whether anything is missing at the front.
    pub fn truncated(&self) -> bool {
        self.dropped || self.units > self.limit
    }

    /// The last units of the text, as many as the limit allows: one less if a character would be cut.
    pub fn into_js(mut self) -> JsText {
        // Less than the first part has, unless the limit is 0: `trim` has seen to that.
        let excess = self.units.saturating_sub(self.limit);
        if self.units == self.text.len() {
            // ASCII, so that it is Latin-1 as it is.
            self.text.drain(..excess);
            return JsText::Latin1(self.text.into());
        }
        // Whole characters came and went, so that it always is UTF-8.
        let text = simdutf8::basic::from_utf8(self.text.make_contiguous()).unwrap_or_default();
        let (skipped, kept) = split_units(text, excess);
        // Half of a surrogate pair is wanted: the other half goes with it.
        let is_cut = utf16_len(skipped) < excess;
        let cut = if is_cut { kept.chars().next().map_or(0, char::len_utf8) } else { 0 };
        JsText::from(&kept[cut..])
    }

    /// Grows by a lot at a time, but to no more than can ever be needed. Memory that nothing was written to is not taken from
    /// the system, but what has to be moved is taken anew.
    fn make_room(&mut self, bytes: usize) {
        let (needed, capacity) = (self.text.len() + bytes, self.text.capacity());
        if needed <= PART.max(capacity) {
            return;
        }
        // Nothing is dropped before what comes after it is there.
        let ascii = self.limit + 2 * PART;
        // No unit of UTF-16 is more than three bytes of UTF-8.
        let most = if needed <= ascii { ascii } else { 3 * self.limit + 2 * PART };
        let next = (8 * capacity).clamp(needed, most.max(needed));
        self.text.reserve_exact(next - self.text.len());
    }

    fn trim(&mut self) {
        while let Some(first) = self.parts.front()
            && self.units - first.units >= self.limit
            && let Some(Part { bytes, units }) = self.parts.pop_front()
        {
            self.text.drain(..bytes);
            self.units -= units;
            self.dropped |= units > 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::Decoder;
    use super::*;
    use proptest::prelude::*;

    fn js(tail: &Tail) -> JsText {
        tail.clone().into_js()
    }

    fn utf16(text: JsText) -> Vec<u16> {
        match text {
            JsText::Latin1(bytes) => bytes.into_iter().map(u16::from).collect(),
            JsText::Utf16(units) => units,
        }
    }

    /// The plain definition.
    fn last_units(text: &str, limit: usize) -> Vec<u16> {
        let units: Vec<_> = text.encode_utf16().collect();
        let kept = &units[units.len().saturating_sub(limit)..];
        let half = matches!(kept.first(), Some(0xDC00..=0xDFFF));
        kept[usize::from(half)..].to_vec()
    }

    #[test]
    fn the_limit_itself_is_kept_whole_and_one_unit_more_is_not() {
        let mut tail = Tail::new(4);
        assert_eq!((js(&tail), tail.truncated()), (JsText::from(""), false));
        tail.push("ab\u{1F600}");
        assert_eq!((js(&tail), tail.truncated()), (JsText::from("ab\u{1F600}"), false));
        tail.push("c");
        assert_eq!((js(&tail), tail.truncated()), (JsText::from("b\u{1F600}c"), true));
        tail.push("d");
        assert_eq!((js(&tail), tail.truncated()), (JsText::from("\u{1F600}cd"), true));
        tail.push("e");
        assert_eq!((js(&tail), tail.truncated()), (JsText::from("cde"), true));
        tail.push("f");
        assert_eq!((js(&tail), tail.truncated()), (JsText::from("cdef"), true));
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing() {
        let mut tail = Tail::new(0);
        tail.push("");
        assert!(!tail.truncated());
        tail.push("\u{20AC}");
        assert_eq!((js(&tail), tail.truncated()), (JsText::from(""), true));
    }

    #[test]
    fn text_is_one_byte_a_character_when_what_is_left_allows_it() {
        let mut tail = Tail::new(3);
        tail.push("\u{20AC}\u{E9}");
        assert_eq!(js(&tail), JsText::Utf16(vec![0x20AC, 0xE9]));
        tail.push("bc");
        assert_eq!(js(&tail), JsText::Latin1(vec![0xE9, b'b', b'c']));
    }

    #[test]
    fn memory_is_little_for_a_little_text_and_bounded_for_a_lot() {
        let mut tail = Tail::new(4_194_304);
        tail.push("hello\n");
        assert!(tail.text.capacity() < 100);
        for text in ["a", "\u{20AC}"] {
            let text = text.repeat(98_304);
            (0..200).for_each(|_| tail.push(text.as_str()));
            assert!(tail.text.capacity() <= (4_194_304 * text.len() / 98_304) + 2 * PART);
            assert_eq!(js(&tail).len(), 4_194_304);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_last_units_are_kept(
            parts in prop::collection::vec((prop::sample::select(vec!["a", "\u{E9}", "\u{20AC}", "\u{1F600}", "ab\u{1F600}"]),
                prop_oneof![1..4usize, 1..40_000usize]), 0..8),
            limit in prop_oneof![0..10usize, 0..120_000usize],
        ) {
            let mut tail = Tail::new(limit);
            let mut all = String::new();
            for (text, count) in parts {
                let text = text.repeat(count);
                tail.push(text.as_str());
                all.push_str(&text);
                prop_assert_eq!(tail.truncated(), utf16_len(&all) > limit);
                prop_assert!(tail.units < limit + PART || tail.parts.len() <= 1);
            }
            prop_assert!(utf16(js(&tail)) == last_units(&all, limit));
        }

        #[test]
        fn bytes_cut_anywhere_end_up_as_the_same_text(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1..9usize) {
            let mut tail = Tail::new(50);
            let mut decoder = Decoder::new();
            for chunk in bytes.chunks(size) {
                decoder.push(chunk).for_each(|text| tail.push(text));
            }
            tail.push(decoder.finish());
            prop_assert_eq!(utf16(js(&tail)), last_units(&String::from_utf8_lossy(&bytes), 50));
        }
    }
}
