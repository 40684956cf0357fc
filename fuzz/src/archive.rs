//! An input → the bytes of a tar archive, honest or not: entries of every kind whose few names meet often, wrong sizes,
//! names in records, cut ends. Or the input itself is the archive, with the checksums that it should have.

use crate::dice::Dice;

const BLOCK: usize = 512;

/// A file that is none of the archive's business. The watched directory is put for `OUTSIDE`.
pub const OUTSIDE: &str = "<outside>";

pub fn archive(dice: &mut Dice, outside: &str) -> Vec<u8> {
    if dice.below(8) == 7 {
        let mut archive = dice.bytes(usize::MAX).to_vec();
        correct(&mut archive);
        return archive;
    }
    let end = dice.byte();
    let mut archive = Vec::new();
    let mut entries = 0;
    while !dice.is_empty() && entries < 64 {
        entry(dice, outside, &mut archive);
        entries += 1;
    }
    match end {
        0..224 => archive.resize(archive.len() + 2 * BLOCK, 0),
        224..232 => archive.resize(archive.len() + BLOCK, 0),
        232..240 => archive.resize(archive.len() + 5 * BLOCK + 7, 0),
        byte => archive.truncate(archive.len().saturating_sub(usize::from(byte - 239) * 100)),
    }
    archive
}

fn entry(dice: &mut Dice, outside: &str, archive: &mut Vec<u8>) {
    let kind = dice.one_of(b"0052120510LKxg7\x00S3V");
    let (path, target) = (path(dice, outside), path(dice, outside));
    let mut content = match kind {
        b'L' | b'K' => [&target[..], b"\0"].concat(),
        b'x' | b'g' if dice.below(8) != 7 => [
            record(dice.one_of(&["path", "path", "linkpath", "size", "mtime", "GNU.sparse.name"]), &target),
            if dice.below(4) == 0 { record("linkpath", &path) } else { Vec::new() },
        ]
        .concat(),
        b'1' | b'2' | b'5' => Vec::new(),
        _ => dice.run().to_vec(),
    };
    let size = match dice.byte() {
        0..224 => content.len() as u64,
        224..240 => content.len() as u64 + u64::from(dice.byte()),
        240..248 => (1 << 20) - 2 + u64::from(dice.byte() & 3),
        byte => u64::MAX >> (u32::from(byte & 7) * 8 + 1),
    };
    let mode = u32::from(dice.byte()) << 1;
    let format = dice.below(4);
    archive.extend_from_slice(&header(kind, &path, &target, size, mode, format));
    content.resize(content.len().next_multiple_of(BLOCK), 0);
    archive.append(&mut content);
}

/// Names that meet, climb and repeat, or any bytes.
fn path(dice: &mut Dice, outside: &str) -> Vec<u8> {
    let shape = dice.byte();
    if shape >= 248 {
        return dice.run().to_vec();
    }
    let mut path = Vec::new();
    for at in 0..usize::from(shape & 7) {
        if at > 0 {
            path.push(b'/');
        }
        let part = dice.one_of(&["a", "b", "c", "..", "a", "b", ".", "", "..", "d", "é", "a b", OUTSIDE, "\\", "long"]);
        match part {
            OUTSIDE => path.extend_from_slice(outside.as_bytes()),
            "long" => path.resize(path.len() + 8 * usize::from(dice.byte()), b'l'),
            part => path.extend_from_slice(part.as_bytes()),
        }
    }
    match shape >> 3 {
        28 => path.push(b'/'),
        29 => path.insert(0, b'/'),
        30 => path.splice(0..0, *b"./").for_each(drop),
        _ => {}
    }
    path
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = 3 + key.len() + value.len();
    // The length counts its own digits.
    let length = (rest + 1..).find(|length| length.to_string().len() + rest == *length).unwrap_or(rest);
    [length.to_string().as_bytes(), b" ", key.as_bytes(), b"=", value, b"\n"].concat()
}

fn header(kind: u8, path: &[u8], target: &[u8], size: u64, mode: u32, format: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, most: usize, text: &[u8]| {
        let length = text.len().min(most);
        block[at..at + length].copy_from_slice(&text[..length]);
    };
    let (magic, prefix): (&[u8], _) = match format {
        0 => (b"ustar  \0", None),
        1 => (b"ustar\x0000", None),
        2 => (b"ustar\x0000", path.iter().position(|&byte| byte == b'/')),
        _ => (b"", None),
    };
    if let Some(slash) = prefix {
        put(345, 155, &path[..slash]);
        put(0, 100, &path[slash + 1..]);
    } else {
        put(0, 100, path);
    }
    put(100, 8, format!("{mode:07o}\0").as_bytes());
    put(108, 8, b"0000000\0");
    put(116, 8, b"0000000\0");
    if size < 1 << 33 {
        put(124, 12, format!("{size:011o}\0").as_bytes());
    } else {
        put(124, 12, &[&[0x80, 0, 0, 0], &size.to_be_bytes()[..]].concat());
    }
    put(136, 12, b"14712345670\0");
    put(156, 1, &[kind]);
    put(157, 100, target);
    put(257, 8, magic);
    sign(&mut block);
    block
}

fn sign(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Gives each header the checksum that makes the reader look at the rest of it.
fn correct(archive: &mut [u8]) {
    let mut at = 0;
    while let Some(block) = archive.get_mut(at..at + BLOCK) {
        let digits = block[124..136].iter().skip_while(|byte| matches!(byte, b' ' | 0));
        let digits = digits.take_while(|byte| (b'0'..=b'7').contains(byte));
        let size = digits.fold(0usize, |size, byte| size.wrapping_mul(8) + usize::from(byte - b'0'));
        if block.iter().any(|&byte| byte != 0) {
            sign(block);
        }
        at = at.saturating_add(BLOCK).saturating_add(size.min(1 << 40).next_multiple_of(BLOCK));
    }
}
