//! Cuts the body of one connection into lines, however the bytes arrive. Owns the line limit, the byte order mark and
//! what a blank line is; a line's content is `frame`'s business. A line that lies within one chunk is borrowed from it,
//! only what spans chunks is gathered, in a buffer that is used again.

use crate::error::Fault;

/// The most bytes a line may have: its newline does not count, a carriage return before it does.
pub const MAX_LINE: usize = 1_048_576;

const MARK: &[u8] = "\u{FEFF}".as_bytes();

/// The lines of one connection, to be pulled: the consumer may wait between two lines, or stop in the middle of a chunk.
#[derive(Debug, Default)]
pub struct Lines {
    /// The beginning of a line whose end has not arrived, or, when `handed_out`, the line that was returned last.
    gathered: Vec<u8>,
    handed_out: bool,
    /// How many bytes of a byte order mark were dropped; all of them once the body's start has been passed.
    mark: usize,
}

impl Lines {
    pub fn new() -> Self {
        Self::default()
    }

    /// The next line that is not blank, without its newline. What was read is cut from the front of `chunk`. `None`
    /// means that `chunk` is used up and the next one is needed.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, Fault> {
        self.reclaim();
        if self.mark < MARK.len() {
            self.drop_mark(chunk);
        }
        loop {
            let Some(end) = memchr::memchr(b'\n', chunk) else {
                self.gather(chunk)?;
                *chunk = &[];
                return Ok(None);
            };
            let line = &chunk[..end];
            *chunk = &chunk[end + 1..];
            if self.gathered.is_empty() {
                if line.len() > MAX_LINE {
                    return Err(Fault::FrameTooLarge);
                }
                if !is_blank(line) {
                    return Ok(Some(line));
                }
            } else {
                self.gather(line)?;
                if !is_blank(&self.gathered) {
                    self.handed_out = true;
                    return Ok(Some(&self.gathered));
                }
                self.gathered.clear();
            }
        }
    }

    /// The body has ended: its last line, if that lacked its newline and is not blank. Then everything is as new, for
    /// the next connection.
    pub fn finish(&mut self) -> Option<&[u8]> {
        self.reclaim();
        if self.mark < MARK.len() {
            // Too short to be a byte order mark, so these bytes were content.
            self.gathered.extend_from_slice(&MARK[..self.mark]);
        }
        self.mark = 0;
        self.handed_out = true;
        (!is_blank(&self.gathered)).then_some(&self.gathered)
    }

    /// Forgets what has arrived and starts with a new connection.
    pub fn restart(&mut self) {
        self.gathered.clear();
        self.handed_out = false;
        self.mark = 0;
    }

    fn reclaim(&mut self) {
        if self.handed_out {
            self.gathered.clear();
            self.handed_out = false;
        }
    }

    /// Checked before anything is copied: an endless line must not fill memory.
    fn gather(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.gathered.len() + bytes.len() > MAX_LINE {
            return Err(Fault::FrameTooLarge);
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn drop_mark(&mut self, chunk: &mut &[u8]) {
        while let Some((&byte, rest)) = chunk.split_first() {
            if byte != MARK[self.mark] {
                self.gathered.extend_from_slice(&MARK[..self.mark]);
                self.mark = MARK.len();
                return;
            }
            *chunk = rest;
            self.mark += 1;
            if self.mark == MARK.len() {
                return;
            }
        }
    }
}

/// Whether nothing would be left after JavaScript's `trim`. Bytes that are not UTF-8 are U+FFFD and stay.
fn is_blank(line: &[u8]) -> bool {
    match line.first() {
        None => true,
        // Nearly every line: neither ASCII white space nor the start of a longer character.
        Some(0x21..=0x7F) => false,
        Some(_) => std::str::from_utf8(line).is_ok_and(|text| text.chars().all(is_javascript_space)),
    }
}

/// ECMAScript's WhiteSpace and LineTerminator. Unlike `char::is_whitespace`, U+FEFF is one and U+0085 is none.
fn is_javascript_space(c: char) -> bool {
    match c {
        '\u{FEFF}' => true,
        '\u{0085}' => false,
        c => c.is_whitespace(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every line that `chunks` hold, and what ended them.
    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Result<(), Fault>) {
        let mut lines = Lines::new();
        let mut found = Vec::new();
        for mut chunk in chunks {
            loop {
                match lines.next(&mut chunk) {
                    Ok(Some(line)) => found.push(line.to_vec()),
                    Ok(None) => break,
                    Err(fault) => return (found, Err(fault)),
                }
            }
            assert!(chunk.is_empty());
        }
        found.extend(lines.finish().map(<[u8]>::to_vec));
        (found, Ok(()))
    }

    fn read_text(body: &str) -> Vec<String> {
        let (found, end) = read([body.as_bytes()]);
        assert_eq!(end, Ok(()));
        found.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn carriage_returns_stay_and_blank_lines_are_skipped() {
        assert_eq!(read_text("\n  \na\r\n\r\n\t\u{b}\u{c}\nb"), ["a\r", "b"]);
        assert_eq!(read_text(""), [""; 0]);
        assert_eq!(read_text("a\n  "), ["a"]);
    }

    #[test]
    fn blank_is_what_javascript_trims() {
        let white = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert_eq!(read_text(&format!("{white}\n")), [""; 0]);
        for kept in ["\u{85}", "\u{180e}", "\u{200b}", "\u{2060}", "\0", "\u{1c}", "\u{feff}x"] {
            assert_eq!(read_text(&format!(" \n {kept}\n")), [format!(" {kept}")]);
        }
        assert_eq!(read([&b" \xff\n"[..]]).0, [b" \xff"]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_very_start_only() {
        assert_eq!(read_text("\u{feff}a\n\u{feff}b\n"), ["a", "\u{feff}b"]);
        assert_eq!(read_text("\u{feff}\u{feff}a\n"), ["\u{feff}a"]);
        assert_eq!(read([&b"\xef"[..], b"\xbb", b"\xbf", b"a\n"]).0, [b"a"]);
        assert_eq!(read([&b"\xef"[..], b"\xbb", b"a\n"]).0, [b"\xef\xbba"]);
        assert_eq!(read([&b"\xef\xbb"[..]]).0, [b"\xef\xbb"]);
        assert_eq!(read([&b"\xef\xbb\n"[..]]).0, [b"\xef\xbb"]);
    }

    #[test]
    fn a_line_of_the_limit_passes_and_one_byte_more_does_not() {
        let line = "x".repeat(MAX_LINE);
        for ok in [format!("{line}\n"), line.clone(), format!("\u{feff}{line}\n"), format!("{}\r\n", &line[1..])] {
            for size in [1 << 12, 1 << 21] {
                assert_eq!(read(ok.as_bytes().chunks(size)).1, Ok(()));
            }
        }
        for over in [format!("{line}x\n"), format!("{line}x"), format!("{line}\r\n"), " ".repeat(MAX_LINE + 1)] {
            for size in [1 << 12, 1 << 21] {
                assert_eq!(read(over.as_bytes().chunks(size)).1, Err(Fault::FrameTooLarge));
            }
        }
    }

    #[test]
    fn lines_before_one_that_is_too_long_are_still_read() {
        let body = format!("a\nb\n{}", "x".repeat(MAX_LINE + 1));
        assert_eq!(read([body.as_bytes()]), (vec![b"a".to_vec(), b"b".to_vec()], Err(Fault::FrameTooLarge)));
    }

    #[test]
    fn an_endless_line_does_not_fill_memory() {
        let mut lines = Lines::new();
        let block = [b'x'; 65_536];
        let result = (0..1_000).try_for_each(|_| lines.next(&mut &block[..]).map(|line| assert!(line.is_none())));
        assert_eq!(result, Err(Fault::FrameTooLarge));
        assert!(lines.gathered.capacity() <= 2 * MAX_LINE);
    }

    #[test]
    fn a_line_within_a_chunk_is_not_copied_and_the_rest_of_the_chunk_is_left_alone() {
        let mut lines = Lines::new();
        let whole = b"one\ntwo\nthree";
        let mut chunk = &whole[..];
        let line = lines.next(&mut chunk).unwrap().unwrap();
        assert_eq!((line, line.as_ptr()), (&whole[..3], whole.as_ptr()));
        assert_eq!(chunk, b"two\nthree");
    }

    #[test]
    fn a_new_connection_starts_anew() {
        let mut lines = Lines::new();
        assert_eq!(lines.next(&mut &b"cut"[..]), Ok(None));
        lines.restart();
        assert_eq!(lines.next(&mut &b"\xef\xbb\xbfa\n"[..]), Ok(Some(&b"a"[..])));
        assert_eq!(lines.finish(), None);
        assert_eq!(lines.next(&mut &b"\xef\xbb\xbfb"[..]), Ok(None));
        assert_eq!(lines.finish(), Some(&b"b"[..]));
        assert_eq!(lines.finish(), None);
    }

    proptest! {
        #[test]
        fn chunking_changes_nothing(
            parts in prop::collection::vec(prop::sample::select(vec![
                &b"\n"[..], b"\r", b" ", b"x", b"{}", b"\xef", b"\xbb", b"\xbf", b"\xef\xbb\xbf", b"\xff", b"\xe2\x80\xa8",
            ]), 0..40),
            cuts in prop::collection::vec(0..80usize, 0..12),
        ) {
            let body = parts.concat();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(body.len())).chain([0, body.len()]).collect();
            cuts.sort_unstable();
            let whole = read([&body[..]]);
            prop_assert_eq!(&read(cuts.windows(2).map(|pair| &body[pair[0]..pair[1]])), &whole);
            prop_assert_eq!(&read(body.chunks(1)), &whole);
            // The plain definition: decode, drop the mark, split, trim.
            let text = String::from_utf8_lossy(&body);
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let plain: Vec<_> = text.split('\n').filter(|line| !line.chars().all(is_javascript_space)).collect();
            let found: Vec<_> = whole.0.iter().map(|line| String::from_utf8_lossy(line)).collect();
            prop_assert_eq!(found, plain);
        }
    }
}
