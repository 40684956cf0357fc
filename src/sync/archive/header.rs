//! One 512-byte header block ↔ its fields. Judges the block's form, not what it says.

pub const BLOCK: usize = 512;

pub type Block = [u8; BLOCK];

/// A block whose form is wrong: checksum, numbers, magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub path: Vec<u8>,
    /// Where a link leads.
    pub link: Vec<u8>,
    pub mode: u32,
    pub size: u64,
    /// Seconds since 1970.
    pub mtime: u64,
    pub kind: u8,
}

const PATH: std::ops::Range<usize> = 0..100;
const MODE: std::ops::Range<usize> = 100..108;
const UID: std::ops::Range<usize> = 108..116;
const GID: std::ops::Range<usize> = 116..124;
const SIZE: std::ops::Range<usize> = 124..136;
const MTIME: std::ops::Range<usize> = 136..148;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const KIND: usize = 156;
const LINK: std::ops::Range<usize> = 157..257;
const MAGIC: std::ops::Range<usize> = 257..265;
const PREFIX: std::ops::Range<usize> = 345..500;

/// POSIX archives split long paths in two; in GNU's own format other things are in that place.
const POSIX: &[u8] = b"ustar\0";
const GNU: &[u8] = b"ustar  \0";

/// What fits into a header; anything longer takes an entry of its own before it.
pub const LONGEST_NAME: usize = 100;

impl Header {
    /// `None` is the block of zeros that ends an archive.
    pub fn decode(block: &Block) -> Result<Option<Self>, Malformed> {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if number(&block[CHECKSUM])? != checksum(block) {
            return Err(Malformed);
        }
        let magic = &block[MAGIC];
        let posix = magic.starts_with(POSIX);
        // Before 1988 there was no magic.
        if !posix && magic != GNU && magic.iter().any(|&byte| byte != 0) {
            return Err(Malformed);
        }
        let mut path = text(&block[PATH]).to_vec();
        let prefix = text(&block[PREFIX]);
        if posix && !prefix.is_empty() {
            path = [prefix, b"/", &path].concat();
        }
        Ok(Some(Self {
            path,
            link: text(&block[LINK]).to_vec(),
            mode: (number(&block[MODE])? & 0o7777) as u32,
            size: number(&block[SIZE])?,
            // Nothing depends on when it was changed; a date that cannot be read is none.
            mtime: number(&block[MTIME]).unwrap_or(0),
            kind: block[KIND],
        }))
    }

    /// Names that are too long are cut. Owners are left out: whoever unpacks the entry owns it.
    pub fn encode(&self) -> Block {
        let mut block = [0; BLOCK];
        let put = |block: &mut Block, at: std::ops::Range<usize>, text: &[u8]| {
            let length = text.len().min(at.len());
            block[at.start..at.start + length].copy_from_slice(&text[..length]);
        };
        put(&mut block, PATH, &self.path);
        put(&mut block, LINK, &self.link);
        for (at, value) in [(MODE, u64::from(self.mode)), (UID, 0), (GID, 0), (SIZE, self.size), (MTIME, self.mtime)] {
            let field = digits(value, at.len());
            put(&mut block, at, &field);
        }
        block[KIND] = self.kind;
        put(&mut block, MAGIC, GNU);
        let sum = format!("{:06o}\0 ", checksum(&block));
        put(&mut block, CHECKSUM, sum.as_bytes());
        block
    }
}

/// How many bytes follow content of this size, so that the next header begins at a block.
pub fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

fn checksum(block: &Block) -> u64 {
    let sum = |bytes: &[u8]| bytes.iter().copied().map(u64::from).sum::<u64>();
    sum(block) - sum(&block[CHECKSUM]) + CHECKSUM.len() as u64 * u64::from(b' ')
}

fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Octal digits with blanks around them, or, where the first bit is set, a big-endian number that is not negative.
fn number(field: &[u8]) -> Result<u64, Malformed> {
    if field.first() == Some(&0x80) {
        let (high, low) = field.split_at(field.len() - 8);
        let value = u64::from_be_bytes(low.try_into().map_err(|_| Malformed)?);
        let fits = high.iter().skip(1).all(|&byte| byte == 0) && i64::try_from(value).is_ok();
        return if fits { Ok(value) } else { Err(Malformed) };
    }
    let blank = |byte: &u8| matches!(byte, b' ' | 0);
    let digits = field.iter().skip_while(|byte| blank(byte));
    let mut value: u64 = 0;
    let mut over = false;
    for byte in digits {
        match byte {
            b'0'..=b'7' if !over => {
                value = value.checked_mul(8).ok_or(Malformed)? + u64::from(byte - b'0');
            }
            _ if blank(byte) => over = true,
            _ => return Err(Malformed),
        }
    }
    Ok(value)
}

/// As octal digits if they fit, else as a big-endian number.
fn digits(value: u64, width: usize) -> Vec<u8> {
    let octal = format!("{value:0>fill$o}\0", fill = width - 1);
    if octal.len() == width {
        return octal.into_bytes();
    }
    let mut field = vec![0; width];
    field[0] = 0x80;
    field[width - 8..].copy_from_slice(&value.to_be_bytes());
    field
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            path in proptest::collection::vec(1..=255u8, 1..=100),
            link in proptest::collection::vec(1..=255u8, 0..=100),
            mode in 0..=0o7777u32,
            size in 0..=i64::MAX as u64,
            mtime in 0..=i64::MAX as u64,
            kind in proptest::sample::select(b"0125LK".to_vec()),
        ) {
            let header = Header { path, link, mode, size, mtime, kind };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(Some(header)));
        }

        #[test]
        fn no_block_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), BLOCK)) {
            let mut block: Block = bytes.try_into().unwrap();
            let sum = format!("{:06o}\0 ", checksum(&block));
            block[CHECKSUM].copy_from_slice(sum.as_bytes());
            let _ = Header::decode(&block);
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let mut block = Header { path: b"a".to_vec(), kind: b'0', ..Header::default() }.encode();
        block[0] = b'b';
        assert_eq!(Header::decode(&block), Err(Malformed));
    }

    #[test]
    fn numbers_have_several_forms() {
        for (field, value) in [
            (b"0000644\0".as_slice(), Ok(0o644)),
            (b"    644 ", Ok(0o644)),
            (b"\0\0\0\0\0\0\0\0", Ok(0)),
            (b"644\0junk", Err(Malformed)),
            (b"-0000001", Err(Malformed)),
            (b"00008\0\0\0", Err(Malformed)),
            (b"\x80\0\0\0\0\0\0\0\0\0\x02\0", Ok(512)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Err(Malformed)),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", Err(Malformed)),
        ] {
            assert_eq!(number(field), value, "{field:?}");
        }
    }
}
