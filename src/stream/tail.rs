//! The end of one stream's text, which becomes part of the result. Owns the limit, where the kept text may begin and
//! how it is stored: segments of UTF-8, of which the oldest is used again for the newest, so that a long output costs
//! constant time a byte and no further memory, and a short one little.

use super::text::{Counted, JsText, split_units, utf16_len};
use std::collections::VecDeque;

/// The bytes of a segment: what is kept beyond the limit is less than one.
const SEGMENT: usize = 65_536;

#[derive(Debug)]
pub struct Tail {
    limit: usize,
    /// No older than needed: without the first one, less than the limit would be left.
    segments: VecDeque<Segment>,
    /// What the segments hold.
    units: usize,
    dropped: bool,
    /// The memory of the segment that was dropped last.
    spare: Option<String>,
}

#[derive(Debug)]
struct Segment {
    text: String,
    units: usize,
}

impl Tail {
    pub fn new(limit_units: usize) -> Self {
        Self { limit: limit_units, segments: VecDeque::new(), units: 0, dropped: false, spare: None }
    }

    pub fn push<'a>(&mut self, text: impl Into<Counted<'a>>) {
        let mut text = text.into();
        while !text.text.is_empty() {
            let room = self.segments.back().map_or(0, |last| SEGMENT - last.text.len());
            let (fitting, rest) = text.split_bytes(room);
            if fitting.text.is_empty() {
                self.add_segment();
                continue;
            }
            if let Some(last) = self.segments.back_mut() {
                last.text.push_str(fitting.text);
                last.units += fitting.units;
                self.units += fitting.units;
            }
            text = rest;
            self.trim();
        }
    }

    /// Whether anything is missing at the front.
    pub fn truncated(&self) -> bool {
        self.dropped || self.units > self.limit
    }

    /// The last units of the text, as many as the limit allows: one less if a character would be cut.
    pub fn to_js(&self) -> JsText {
        let mut excess = self.units.saturating_sub(self.limit);
        // `trim` leaves all the excess in the first segment, unless the limit is 0.
        JsText::join(self.segments.iter().map(move |segment| {
            let (skipped, kept) = split_units(&segment.text, excess);
            let lacking = excess - utf16_len(skipped);
            excess = 0;
            // Half of a surrogate pair is wanted: the other half goes with it.
            let cut = if lacking > 0 { kept.chars().next().map_or(0, char::len_utf8) } else { 0 };
            &kept[cut..]
        }))
    }

    fn add_segment(&mut self) {
        let text = match self.spare.take() {
            Some(text) => text,
            // Whether there will be more than a few bytes is not known yet.
            None if self.segments.is_empty() => String::new(),
            None => String::with_capacity(SEGMENT),
        };
        self.segments.push_back(Segment { text, units: 0 });
    }

    fn trim(&mut self) {
        while let Some(first) = self.segments.front()
            && self.units - first.units >= self.limit
            && let Some(Segment { mut text, units }) = self.segments.pop_front()
        {
            self.units -= units;
            self.dropped |= units > 0;
            text.clear();
            self.spare = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::Decoder;
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!((tail.to_js(), tail.truncated()), (JsText::from(""), false));
        tail.push("ab\u{1F600}");
        assert_eq!((tail.to_js(), tail.truncated()), (JsText::from("ab\u{1F600}"), false));
        tail.push("c");
        assert_eq!((tail.to_js(), tail.truncated()), (JsText::from("b\u{1F600}c"), true));
        tail.push("d");
        assert_eq!((tail.to_js(), tail.truncated()), (JsText::from("\u{1F600}cd"), true));
        tail.push("e");
        assert_eq!((tail.to_js(), tail.truncated()), (JsText::from("cde"), true));
        tail.push("f");
        assert_eq!((tail.to_js(), tail.truncated()), (JsText::from("cdef"), true));
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing() {
        let mut tail = Tail::new(0);
        tail.push("");
        assert!(!tail.truncated());
        tail.push("\u{20AC}");
        assert_eq!((tail.to_js(), tail.truncated()), (JsText::from(""), true));
    }

    #[test]
    fn text_is_one_byte_a_character_when_what_is_left_allows_it() {
        let mut tail = Tail::new(3);
        tail.push("\u{20AC}\u{E9}");
        assert_eq!(tail.to_js(), JsText::Utf16(vec![0x20AC, 0xE9]));
        tail.push("bc");
        assert_eq!(tail.to_js(), JsText::Latin1(vec![0xE9, b'b', b'c']));
    }

    #[test]
    fn memory_is_little_for_a_little_text_and_bounded_for_a_lot() {
        let memory = |tail: &Tail| tail.segments.iter().map(|segment| segment.text.capacity()).sum::<usize>();
        let mut tail = Tail::new(4_194_304);
        tail.push("hello\n");
        assert!(memory(&tail) < 100);
        for text in ["a", "\u{20AC}"] {
            let text = text.repeat(98_304);
            (0..200).for_each(|_| tail.push(text.as_str()));
            assert!(memory(&tail) <= (4_194_304 * text.len() / 98_304) + 3 * SEGMENT);
            assert_eq!(tail.to_js().len(), 4_194_304);
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
                prop_assert!(tail.units < limit + SEGMENT || tail.segments.len() <= 1);
            }
            prop_assert!(utf16(tail.to_js()) == last_units(&all, limit));
        }

        #[test]
        fn bytes_cut_anywhere_end_up_as_the_same_text(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1..9usize) {
            let mut tail = Tail::new(50);
            let mut decoder = Decoder::new();
            for chunk in bytes.chunks(size) {
                decoder.push(chunk).for_each(|text| tail.push(text));
            }
            tail.push(decoder.finish());
            prop_assert_eq!(utf16(tail.to_js()), last_units(&String::from_utf8_lossy(&bytes), 50));
        }
    }
}
