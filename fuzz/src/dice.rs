//! An input → decisions, one byte each. What an input does not say is 0, so that every input means something and a short
//! one something simple.

#[derive(Clone, Debug)]
pub struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    pub fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// So many bytes, or what is left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// A run of bytes with its length in front.
    pub fn run(&mut self) -> &'a [u8] {
        let length = self.byte();
        self.bytes(length.into())
    }

    /// The same as text.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.run()).into_owned()
    }
}
