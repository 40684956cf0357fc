//! Archives of every kind, made block by block, and read.

use proptest::prelude::*;

use super::{
    super::writer::{Kind as Written, Writer},
    *,
};

/// An archive in the making, however wrong.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn raw(mut self, header: Header, content: &[u8]) -> Self {
        self.0.extend_from_slice(&header.encode());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    fn entry(self, kind: u8, path: &str, link: &str, content: &[u8]) -> Self {
        let (path, link) = (path.as_bytes().to_vec(), link.as_bytes().to_vec());
        self.raw(Header { path, link, mode: 0o644, size: content.len() as u64, mtime: 7, kind }, content)
    }

    fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(b'0', path, "", content)
    }

    fn pax(self, kind: u8, records: &[(&str, &str)]) -> Self {
        let mut content = String::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (1..).map(|digits| rest + digits).find(|length| rest + length.to_string().len() == *length);
            content.push_str(&format!("{} {key}={value}\n", length.unwrap()));
        }
        self.entry(kind, "pax", "", content.as_bytes())
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 2 * BLOCK]);
        self.0
    }
}

/// All entries with their content, or at which entry it went wrong.
fn read(archive: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, Option<String>> {
    let mut reader = Reader::new(archive);
    let mut all = Vec::new();
    let bad = |bad| match bad {
        Bad::Unsafe(entry) => entry.map(|entry| String::from_utf8_lossy(&entry).into_owned()),
        Bad::Read(error) => panic!("{error}"),
    };
    while let Some(entry) = reader.next_entry().map_err(bad)? {
        let mut content = Vec::new();
        let mut buffer = [0; 100];
        loop {
            match reader.read(&mut buffer).map_err(bad)? {
                0 => break,
                length => content.extend_from_slice(&buffer[..length]),
            }
        }
        all.push((entry, content));
    }
    Ok(all)
}

fn paths(archive: &[u8]) -> Vec<String> {
    let text = |(entry, _): &(Entry, Vec<u8>)| String::from_utf8_lossy(&entry.path).into_owned();
    read(archive).unwrap().iter().map(text).collect()
}

#[test]
fn entries_come_with_their_shortest_paths_and_the_root_is_none() {
    let archive = Archive::default()
        .entry(b'5', "./", "", b"")
        .file("./a//b/./c", b"content")
        .entry(b'5', "./d/", "", b"")
        .entry(0, "old/", "", b"")
        .entry(b'2', "./d/link", "../a/b", b"")
        .entry(b'1', "hard", "./a/b/c", b"")
        .end();
    let entries = read(&archive).unwrap();
    let kinds: Vec<_> = entries.iter().map(|(entry, _)| (entry.path.as_slice(), entry.kind.clone())).collect();
    assert_eq!(
        kinds,
        [
            (b"a/b/c".as_slice(), Kind::File),
            (b"d", Kind::Directory),
            (b"old", Kind::Directory),
            (b"d/link", Kind::Symlink(b"../a/b".to_vec())),
            (b"hard", Kind::HardLink(b"a/b/c".to_vec())),
        ]
    );
    assert_eq!((entries[0].1.as_slice(), entries[0].0.mode, entries[0].0.mtime), (b"content".as_slice(), 0o644, 7));
}

#[test]
fn set_id_bits_do_not_travel() {
    let header = Header { path: b"a".to_vec(), mode: 0o6755, kind: b'0', ..Header::default() };
    assert_eq!(read(&Archive::default().raw(header, b"").end()).unwrap()[0].0.mode, 0o755);
}

#[test]
fn what_is_not_safe_is_refused_by_name() {
    for (kind, path, link) in [
        (b'0', "../a", ""),
        (b'0', "a/../b", ""),
        (b'0', "/a", ""),
        (b'0', "a\\b", ""),
        (b'0', "a/", ""),
        (b'0', ".", ""),
        (b'2', "a", ".."),
        (b'2', "a/b", "../../c"),
        (b'2', "a/b", "c/../../../d"),
        (b'2', "a", ""),
        (b'2', "a", "b\\c"),
        (b'2', "./", "a"),
        (b'1', "a", "../b"),
        (b'1', "a", "/b"),
        (b'1', "a", ""),
        (b'1', "a", "."),
        (b'3', "device", ""),
        (b'4', "block", ""),
        (b'6', "fifo", ""),
        (b'S', "sparse", ""),
        (b'V', "volume", ""),
        (b'M', "more", ""),
        (b'D', "dump", ""),
        (b'?', "what", ""),
    ] {
        let archive = Archive::default().file("safe", b"s").entry(kind, path, link, b"").end();
        assert_eq!(read(&archive), Err(Some(path.to_owned())), "{} {path} {link}", kind as char);
    }
    assert_eq!(read(&Archive::default().file("", b"").end()), Err(Some(String::new())));
}

#[test]
fn an_absolute_link_is_for_others_to_judge() {
    let archive = Archive::default().entry(b'2', "python", "/usr/bin/python3", b"").end();
    assert_eq!(read(&archive).unwrap()[0].0.kind, Kind::Symlink(b"/usr/bin/python3".to_vec()));
}

#[test]
fn only_files_have_content() {
    for kind in [b'5', b'2', b'1'] {
        let archive = Archive::default().entry(kind, "a", "b", b"content").end();
        assert_eq!(read(&archive), Err(Some("a".to_owned())), "{}", kind as char);
    }
}

#[test]
fn an_archive_that_is_cut_anywhere_is_refused() {
    let whole = Archive::default().file("a", &[1; 700]).pax(b'x', &[("path", "b")]).file("c", b"2").end();
    assert_eq!(paths(&whole), ["a", "b"]);
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "cut after {length} bytes");
    }
    assert_eq!(read(&whole[..BLOCK + 5]), Err(Some("a".to_owned())));
}

#[test]
fn after_the_end_there_are_only_zeros() {
    let archive = Archive::default().file("a", b"").end();
    assert_eq!(paths(&[archive.as_slice(), &[0; 9000]].concat()), ["a"]);
    let hidden = [archive, Archive::default().file("hidden", b"").end()].concat();
    assert_eq!(read(&hidden), Err(None));
    let lone = [Archive::default().file("a", b"").0, vec![0; BLOCK], Archive::default().file("b", b"").end()].concat();
    assert_eq!(read(&lone), Err(None), "one block of zeros ends nothing");
}

#[test]
fn long_names_come_in_three_ways() {
    let long = "d/".repeat(80) + "name";
    let ustar = {
        let mut block = Header { path: b"name".to_vec(), kind: b'0', ..Header::default() }.encode();
        block[257..265].copy_from_slice(b"ustar\x0000");
        let prefix = "d/".repeat(60) + "d";
        block[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes());
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().copied().map(u32::from).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut archive = Archive::default();
        archive.0.extend_from_slice(&block);
        archive.end()
    };
    assert_eq!(paths(&ustar), ["d/".repeat(61) + "name"]);
    let gnu =
        Archive::default().entry(b'L', "././@LongLink", "", format!("{long}\0").as_bytes()).file("cut", b"").end();
    assert_eq!(paths(&gnu), [long.as_str()]);
    let pax = Archive::default().pax(b'x', &[("path", &long), ("mtime", "1.5")]).file("cut", b"").end();
    assert_eq!(paths(&pax), [long.as_str()]);
}

#[test]
fn no_record_hides_an_entry() {
    let hidden = Archive::default().file("hidden", b"");
    // What one reader takes for content is an entry to another that passes over the size.
    let size = Archive::default()
        .pax(b'x', &[("size", "512")])
        .raw(Header { path: b"a".to_vec(), kind: b'0', ..Header::default() }, &hidden.0);
    let entries = read(&size.end()).unwrap();
    assert_eq!((entries.len(), entries[0].1.len()), (1, 512));
    for archive in [
        Archive::default().pax(b'x', &[("path", "../a")]).file("a", b""),
        Archive::default().pax(b'x', &[("linkpath", "../a")]).entry(b'2', "l", "safe", b""),
        Archive::default().pax(b'g', &[("path", "a")]).file("b", b""),
        Archive::default().pax(b'g', &[("size", "0")]).file("b", b""),
        Archive::default().pax(b'x', &[("path", "a"), ("path", "b")]).file("c", b""),
        Archive::default().pax(b'x', &[("path", "a")]).pax(b'x', &[("path", "b")]).file("c", b""),
        Archive::default().pax(b'x', &[("path", "a")]).entry(b'L', "l", "", b"b\0").file("c", b""),
        Archive::default().entry(b'L', "l", "", b"b\0").pax(b'x', &[("path", "a")]).file("c", b""),
        Archive::default().entry(b'L', "l", "", b"a\0").entry(b'L', "l", "", b"b\0").file("c", b""),
        Archive::default().entry(b'L', "l", "", b"a\0b").file("c", b""),
        Archive::default().pax(b'x', &[("GNU.sparse.major", "1")]).file("c", b""),
        Archive::default().pax(b'x', &[("size", "99")]).entry(b'5', "d", "", b""),
        Archive::default().pax(b'x', &[("path", "a")]),
        Archive::default().entry(b'L', "l", "", b"a\0"),
    ] {
        assert!(read(&archive.end()).is_err());
    }
    let comment = Archive::default().pax(b'g', &[("comment", "0123")]).file("a", b"").end();
    assert_eq!(paths(&comment), ["a"], "archives of git begin like this");
}

#[test]
fn more_than_ten_gibibytes_are_refused_before_they_come() {
    let sized = |size| Header { path: b"large".to_vec(), kind: b'0', size, ..Header::default() };
    assert_eq!(read(&Archive::default().raw(sized(MOST + 1), b"").0), Err(Some("large".to_owned())));
    let huge = Archive::default().file("a", b"x").raw(sized(MOST), b"").0;
    let mut reader = Reader::new(huge.as_slice());
    assert!(reader.next_entry().is_ok());
    assert!(matches!(reader.next_entry(), Err(Bad::Unsafe(Some(name))) if name == b"large"));
    let mut reader = Reader::new(huge.get(2 * BLOCK..).unwrap());
    assert!(reader.next_entry().unwrap().is_some(), "exactly ten are fine");
    let name = Header { size: 2 * LONGEST, kind: b'L', ..sized(0) };
    assert!(read(&Archive::default().raw(name, &[b'a'; 10]).0).is_err());
}

/// Names as they are found in directories.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("no separator", |byte| !matches!(byte, 0 | b'/' | b'\\'));
    proptest::collection::vec(byte, 1..=255).prop_filter("no directory", |name| name != b"." && name != b"..")
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        files in proptest::collection::vec(
            (proptest::collection::vec(name(), 1..4), proptest::collection::vec(any::<u8>(), 0..2000), 0..=0o777u32),
            0..8,
        ),
        target in name(),
    ) {
        let mut archive = Vec::new();
        let mut writer = Writer::new(&mut archive);
        let mut expected = Vec::new();
        writer.entry(b"./", 0o755, 0, Written::Directory).unwrap();
        for (parts, content, mode) in files {
            let path = parts.join(&b'/');
            writer.file(&path, mode, 9, content.len() as u64, &mut content.as_slice()).unwrap();
            expected.push((Entry { path, mode, mtime: 9, kind: Kind::File }, content));
        }
        writer.entry(b"link", 0o777, 1, Written::Symlink { target: &target }).unwrap();
        writer.entry(b"dir/", 0o700, 1, Written::Directory).unwrap();
        expected.push((Entry { path: b"link".to_vec(), mode: 0o777, mtime: 1, kind: Kind::Symlink(target) }, Vec::new()));
        expected.push((Entry { path: b"dir".to_vec(), mode: 0o700, mtime: 1, kind: Kind::Directory }, Vec::new()));
        writer.finish().unwrap();
        let written = writer.written;
        prop_assert_eq!(written, archive.len() as u64);
        prop_assert_eq!(read(&archive), Ok(expected));
    }

    #[test]
    fn whatever_comes_no_path_leads_out(
        mut archive in Just(
            Archive::default()
                .entry(b'5', "./", "", b"")
                .file("a/b", b"content")
                .entry(b'2', "a/l", "../x", b"")
                .pax(b'x', &[("path", "p/q"), ("size", "3")])
                .file("c", b"123")
                .entry(b'L', "long", "", b"some/name\0")
                .entry(b'1', "d", "a/b", b"")
                .end(),
        ),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        fix in any::<bool>(),
    ) {
        for (at, byte) in changes {
            let at = at.index(archive.len());
            archive[at] = byte;
        }
        if fix {
            for block in archive.chunks_exact_mut(BLOCK) {
                block[148..156].fill(b' ');
                let sum: u32 = block.iter().copied().map(u32::from).sum();
                block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
        let mut reader = Reader::new(archive.as_slice());
        while let Ok(Some(entry)) = reader.next_entry() {
            let inside = |path: &[u8]| !path.is_empty() && !path.split(|&byte| byte == b'/').any(|part| matches!(part, b"" | b"." | b".."));
            prop_assert!(inside(&entry.path));
            if let Kind::HardLink(target) = &entry.kind {
                prop_assert!(inside(target));
            }
        }
    }
}
