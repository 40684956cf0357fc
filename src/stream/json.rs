//! A scanner for one JSON object: accepts what JavaScript's `JSON.parse` accepts and gives each member as it stands in
//! the text, borrowed. Owns the grammar and escapes; which members matter, `frame` knows.
//!
//! `serde_json` comes close: its `RawValue` accepts half a surrogate pair, numbers past the range of a double and any
//! nesting, in keys and values, and the tests hold this scanner to it. But a frame is one long string, which this finds
//! the end of in about a third of the time, and containers inside containers cost no allocation here.

/// A member's value. Strings and numbers are checked but not converted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Text(Text<'a>),
    Number(&'a str),
    /// `null`, `true`, `false`, an array or an object: nothing that a frame has a use for.
    Other,
}

/// A string between its quotes, escapes and all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

/// Why there is no more to say: this is not JSON, or no object.
#[derive(Debug, PartialEq)]
pub(super) struct Invalid;

/// Calls `each` with the members of the object in `text`, in order, repeated ones too. A later part may still turn out
/// to be invalid, so nothing may be acted upon before this returns. `nesting` is scratch space.
pub(super) fn members<'a>(
    text: &'a str,
    nesting: &mut Vec<u8>,
    mut each: impl FnMut(Text<'a>, Value<'a>),
) -> Result<(), Invalid> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.expect(b'{')?;
    if !scanner.skip_if(b'}') {
        loop {
            let key = scanner.key()?;
            each(key, scanner.value(nesting)?);
            match scanner.next()? {
                b',' => {}
                b'}' => break,
                _ => return Err(Invalid),
            }
        }
    }
    scanner.skip_space();
    if scanner.at == text.len() { Ok(()) } else { Err(Invalid) }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// The next byte that is not white space.
    fn next(&mut self) -> Result<u8, Invalid> {
        self.skip_space();
        let byte = self.peek().ok_or(Invalid)?;
        self.at += 1;
        Ok(byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Invalid> {
        if self.next()? == byte { Ok(()) } else { Err(Invalid) }
    }

    fn skip_if(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn key(&mut self) -> Result<Text<'a>, Invalid> {
        self.expect(b'"')?;
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    fn value(&mut self, nesting: &mut Vec<u8>) -> Result<Value<'a>, Invalid> {
        self.skip_space();
        match self.peek() {
            Some(b'{' | b'[') => {
                self.container(nesting)?;
                Ok(Value::Other)
            }
            _ => self.scalar(),
        }
    }

    /// Steps over an array or object. `nesting` holds what closes each container that is open.
    fn container(&mut self, nesting: &mut Vec<u8>) -> Result<(), Invalid> {
        nesting.clear();
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'[') => {
                    self.at += 1;
                    if !self.skip_if(b']') {
                        nesting.push(b']');
                        continue;
                    }
                }
                Some(b'{') => {
                    self.at += 1;
                    if !self.skip_if(b'}') {
                        nesting.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                _ => {
                    self.scalar()?;
                }
            }
            // A value has ended, and with it perhaps what holds it.
            loop {
                let Some(&close) = nesting.last() else { return Ok(()) };
                match self.next()? {
                    b',' => {
                        if close == b'}' {
                            self.key()?;
                        }
                        break;
                    }
                    byte if byte == close => {
                        nesting.pop();
                    }
                    _ => return Err(Invalid),
                }
            }
        }
    }

    fn scalar(&mut self) -> Result<Value<'a>, Invalid> {
        let word = match self.peek() {
            Some(b'"') => {
                self.at += 1;
                return self.string().map(Value::Text);
            }
            Some(b'-' | b'0'..=b'9') => return self.number(),
            Some(b't') => "true",
            Some(b'f') => "false",
            Some(b'n') => "null",
            _ => return Err(Invalid),
        };
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Invalid);
        }
        self.at += word.len();
        Ok(Value::Other)
    }

    fn number(&mut self) -> Result<Value<'a>, Invalid> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(Value::Number(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), Invalid> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Invalid) }
    }

    /// The rest of a string, past its opening quote.
    fn string(&mut self) -> Result<Text<'a>, Invalid> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut escaped = false;
        loop {
            let end = self.at + plain_len(&bytes[self.at..]).ok_or(Invalid)?;
            if bytes[end] == b'"' {
                self.at = end + 1;
                return Ok(Text { raw: &self.text[start..end], escaped });
            }
            escaped = true;
            self.at = end + escape(&bytes[end..]).ok_or(Invalid)?.1;
        }
    }
}

/// How many bytes come before the first quote or backslash; `None` if there is none, or a control character before it.
fn plain_len(bytes: &[u8]) -> Option<usize> {
    /// Names and keys are shorter: setting up a search costs more than they do.
    const SHORT: usize = 16;
    for (length, &byte) in bytes.iter().take(SHORT).enumerate() {
        match byte {
            b'"' | b'\\' => return Some(length),
            0..b' ' => return None,
            _ => {}
        }
    }
    let rest = bytes.get(SHORT..)?;
    let length = memchr::memchr2(b'"', b'\\', rest)?;
    // A minimum instead of a search for the first one: compilers make vector code of it.
    let least = rest[..length].iter().fold(u8::MAX, |least, &byte| least.min(byte));
    (least >= b' ').then_some(SHORT + length)
}

/// The UTF-16 unit that the escape at the start of `bytes` stands for, and how many bytes it takes.
fn escape(bytes: &[u8]) -> Option<(u16, usize)> {
    let unit = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit =
                bytes.get(2..6)?.iter().try_fold(0, |unit, &byte| Some(unit << 4 | char::from(byte).to_digit(16)?))?;
            return Some((unit as u16, 6));
        }
        _ => return None,
    };
    Some((unit as u16, 2))
}

impl<'a> Text<'a> {
    /// The string itself, if it is written without escapes.
    pub fn plain(self) -> Option<&'a str> {
        (!self.escaped).then_some(self.raw)
    }

    /// The string as JavaScript has it: escapes may stand for half a surrogate pair.
    pub fn units(self) -> impl Iterator<Item = u16> + 'a {
        let mut rest = self.raw;
        let mut low = None;
        std::iter::from_fn(move || {
            if let Some(unit) = low.take() {
                return Some(unit);
            }
            if rest.starts_with('\\') {
                let (unit, length) = escape(rest.as_bytes())?;
                rest = &rest[length..];
                return Some(unit);
            }
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            let mut pair = [0; 2];
            c.encode_utf16(&mut pair);
            low = (c.len_utf16() == 2).then_some(pair[1]);
            Some(pair[0])
        })
    }

    pub fn is(self, text: &str) -> bool {
        match self.plain() {
            Some(plain) => plain == text,
            None => self.units().eq(text.encode_utf16()),
        }
    }

    /// No shorter than what [`Self::unescape`] writes.
    pub fn raw_len(self) -> usize {
        self.raw.len()
    }

    /// Writes the string to the front of `target` and gives its length; `None` if an escape stands for no byte.
    /// Unescaped characters past ASCII stay as they are, in UTF-8.
    pub fn unescape(self, target: &mut [u8]) -> Option<usize> {
        let mut rest = self.raw.as_bytes();
        let mut written = 0;
        while let Some(length) = memchr::memchr(b'\\', rest) {
            target[written..written + length].copy_from_slice(&rest[..length]);
            let (unit, taken) = escape(&rest[length..])?;
            target[written + length] = u8::try_from(unit).ok()?;
            written += length + 1;
            rest = &rest[length + taken..];
        }
        target[written..written + rest.len()].copy_from_slice(rest);
        Some(written + rest.len())
    }
}

#[cfg(test)]
mod tests;
