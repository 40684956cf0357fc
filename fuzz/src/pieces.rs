//! An input → the pieces in which a body arrives. Nearly all bytes stand for themselves, so that a plain text file is an
//! input; three that are no UTF-8 do not: `FE` is a cut, `FD` says that the byte after it comes often, and `FF` that the
//! next one stands for itself.

const CUT: u8 = 0xFE;
const OFTEN: u8 = 0xFD;
const ITSELF: u8 = 0xFF;

/// A body needs no more to pass every limit.
const LONGEST: usize = 5 << 18;

pub fn pieces(input: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = vec![];
    let mut piece = vec![];
    let mut length = 0;
    let mut bytes = input.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            CUT => pieces.push(std::mem::take(&mut piece)),
            OFTEN => {
                let byte = bytes.next().unwrap_or_default();
                let count = often(bytes.next().unwrap_or_default()).min(LONGEST - length);
                piece.resize(piece.len() + count, byte);
                length += count;
            }
            ITSELF => piece.push(bytes.next().unwrap_or(ITSELF)),
            _ => piece.push(byte),
        }
    }
    pieces.push(piece);
    pieces
}

/// Powers of two, less or more a few, since limits are near them. Few of them are large: those take long.
fn often(count: u8) -> usize {
    let exponent = match count & 31 {
        exponent @ (0..=15 | 20) => exponent,
        exponent => exponent & 7,
    };
    ((1 << exponent) + usize::from(count >> 5)).saturating_sub(4)
}
