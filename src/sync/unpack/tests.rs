//! What depends on the order of entries and on what was unpacked before.

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::sync::archive::header::{BLOCK, Header};

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("createos-unpack-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `(kind, path, link or content)`
fn archive(entries: &[(u8, &str, &str)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for &(kind, path, text) in entries {
        let (link, content) = if matches!(kind, b'1' | b'2') { (text, "") } else { ("", text) };
        let (path, link) = (path.as_bytes().to_vec(), link.as_bytes().to_vec());
        let mode = if kind == b'5' { 0o755 } else { 0o640 };
        let header = Header { path, link, mode, size: content.len() as u64, mtime: 1_000_000_000, kind };
        archive.extend_from_slice(&header.encode());
        archive.extend_from_slice(content.as_bytes());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn unpacked(entries: &[(u8, &str, &str)], exclude: &[&str]) -> (Scratch, Result<Unpacked, Error>) {
    let scratch = Scratch::new();
    let exclude = Exclude::new(exclude.iter().copied());
    let result = unpack(archive(entries).as_slice(), &scratch.root(), &scratch.0.join("aside"), &exclude);
    (scratch, result)
}

/// The entry at which unpacking is refused.
fn refused_at(entries: &[(u8, &str, &str)]) -> Option<String> {
    let (_scratch, result) = unpacked(entries, &[]);
    let error = result.unwrap_err();
    assert_eq!(error.fault, Fault::ArchiveUnsafe);
    error.details.entry
}

fn content(scratch: &Scratch, path: &str) -> Option<String> {
    fs::read_to_string(scratch.root().join(path)).ok()
}

const FILE: u8 = b'0';
const HARD: u8 = b'1';
const LINK: u8 = b'2';
const DIRECTORY: u8 = b'5';

#[test]
fn nothing_is_written_through_a_link() {
    assert_eq!(refused_at(&[(LINK, "l", "d"), (FILE, "l/a", "x")]).as_deref(), Some("l/a"));
    assert_eq!(refused_at(&[(LINK, "l", "/tmp"), (FILE, "l/a", "x")]).as_deref(), Some("l/a"));
    assert_eq!(refused_at(&[(DIRECTORY, "d", ""), (LINK, "l", "d"), (DIRECTORY, "l/a", "")]).as_deref(), Some("l/a"));
    assert_eq!(refused_at(&[(LINK, "l", "d"), (DIRECTORY, "l", "")]).as_deref(), Some("l"));
    assert_eq!(refused_at(&[(FILE, "f", ""), (FILE, "f/a", "")]).as_deref(), Some("f/a"));
    assert_eq!(refused_at(&[(DIRECTORY, "d", ""), (LINK, "d", "e")]).as_deref(), Some("d"));
    assert_eq!(refused_at(&[(DIRECTORY, "d", ""), (FILE, "d", "e")]).as_deref(), Some("d"));
}

#[test]
fn a_link_may_not_lead_out_by_way_of_another() {
    let deep = [(DIRECTORY, "p/q", ""), (LINK, "p/q/up", "../.."), (LINK, "out", "p/q/up/..")];
    assert_eq!(refused_at(&deep).as_deref(), Some("out"), "it is in the root by its text alone");
    let mut later = deep;
    later.reverse();
    assert_eq!(refused_at(&later).as_deref(), Some("out"), "in any order");
    let (_scratch, inside) = unpacked(&[(DIRECTORY, "a/b", ""), (LINK, "a/b/l", "../.."), (LINK, "m", "a/b/l/a")], &[]);
    assert!(inside.is_ok());
}

#[test]
fn links_that_lead_nowhere_or_in_circles_arrive_as_they_are() {
    let entries =
        [(LINK, "dangling", "nothing/../here"), (LINK, "a", "b/.."), (LINK, "b", "a/.."), (LINK, "self", "self")];
    let (scratch, result) = unpacked(&entries, &[]);
    assert_eq!(result.unwrap().files, 0);
    assert_eq!(fs::read_link(scratch.root().join("self")).unwrap(), Path::new("self"));
    assert!(fs::symlink_metadata(scratch.root().join("a")).is_ok());
}

#[test]
fn absolute_links_are_left_out_by_name() {
    let (scratch, result) = unpacked(&[(LINK, "v/python", "/usr/bin/python3"), (LINK, "v/p3", "python")], &[]);
    let skipped = result.unwrap().skips.named;
    assert_eq!(skipped.len(), 1);
    assert_eq!((skipped[0].entry.as_str(), skipped[0].reason), ("v/python", SkipReason::AbsoluteLink));
    let names: Vec<_> =
        fs::read_dir(scratch.root().join("v")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["p3"]);
}

#[test]
fn hard_links_are_counted_from_the_root_and_need_something_to_name() {
    let (scratch, result) = unpacked(&[(FILE, "a/b", "x"), (HARD, "c/d", "a/b")], &[]);
    assert_eq!(result.unwrap().files, 1);
    assert_eq!(content(&scratch, "c/d").as_deref(), Some("x"));
    assert_eq!(refused_at(&[(HARD, "a", "b")]).as_deref(), Some("a"));
    assert_eq!(refused_at(&[(HARD, "a", "a")]).as_deref(), Some("a"));
    assert_eq!(refused_at(&[(FILE, "a", "x"), (HARD, "a", "a")]).as_deref(), Some("a"));
    assert_eq!(refused_at(&[(DIRECTORY, "d", ""), (HARD, "a", "d")]).as_deref(), Some("a"));
    assert_eq!(refused_at(&[(FILE, "d/f", ""), (LINK, "l", "d"), (HARD, "a", "l/f")]).as_deref(), Some("a"));
    // A second name of a link is that link at another place, from where it leads elsewhere.
    assert_eq!(refused_at(&[(LINK, "d/l", "../x"), (HARD, "a", "d/l")]).as_deref(), Some("a"));
}

#[test]
fn what_comes_later_is_newer() {
    let (scratch, result) =
        unpacked(&[(FILE, "a", "old"), (HARD, "b", "a"), (FILE, "a", "new"), (LINK, "b", "a")], &[]);
    result.unwrap();
    assert_eq!(content(&scratch, "a").as_deref(), Some("new"));
    assert_eq!(fs::read_link(scratch.root().join("b")).unwrap(), Path::new("a"));
}

#[test]
fn what_is_left_out_can_have_another_name_that_is_not() {
    let entries = [(DIRECTORY, "out", ""), (FILE, "out/a", "x"), (LINK, "out/l", "../../.."), (HARD, "b", "out/a")];
    let (_scratch, refused) = unpacked(&entries, &["out"]);
    assert_eq!(refused.unwrap_err().fault, Fault::ArchiveUnsafe, "it has to be safe all the same");
    let (scratch, result) = unpacked(&[entries[0], entries[1], entries[3]], &["/out"]);
    assert_eq!(result.unwrap().files, 0);
    assert_eq!(content(&scratch, "b").as_deref(), Some("x"));
    assert!(!scratch.root().join("out").exists());
}

#[test]
fn what_is_left_out_may_come_more_than_once() {
    let entries =
        [(FILE, "out", "old"), (HARD, "b", "out"), (FILE, "out", "new"), (HARD, "c", "out"), (FILE, "d/out", "x")];
    let (scratch, result) = unpacked(&entries, &["out"]);
    assert_eq!(result.unwrap().files, 0);
    assert_eq!(content(&scratch, "b").as_deref(), Some("old"));
    assert_eq!(content(&scratch, "c").as_deref(), Some("new"));
}

#[test]
fn a_file_keeps_its_time() {
    let (scratch, result) = unpacked(&[(FILE, "a", "x")], &[]);
    result.unwrap();
    assert_eq!(host::mtime(&fs::metadata(scratch.root().join("a")).unwrap()), 1_000_000_000);
}

#[test]
fn a_name_that_the_host_cannot_have_fails_at_its_entry() {
    let long = "x".repeat(300);
    let mut archive = Vec::new();
    let mut writer = crate::sync::archive::writer::Writer::new(&mut archive);
    writer.file(long.as_bytes(), 0o600, 0, 0, &mut io::empty()).unwrap();
    writer.finish().unwrap();
    let scratch = Scratch::new();
    let result = unpack(archive.as_slice(), &scratch.root(), &scratch.0.join("aside"), &Exclude::default());
    let error = result.unwrap_err();
    assert_eq!(error.fault, Fault::HostFile(crate::error::HostFault::NameInvalid));
    assert_eq!(error.details.entry, Some(long));
}

/// Paths that meet, climb and repeat.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "..", "."]), 1..4).prop_map(|parts| parts.join("/"))
}

proptest! {
    /// Whatever an archive says: nothing beside the root is touched, and no link that is left leads there.
    #[test]
    fn nothing_leads_out(
        entries in prop::collection::vec((prop::sample::select(vec![FILE, HARD, LINK, LINK, DIRECTORY]), path(), path()), 1..8),
        exclude in prop::option::of(prop::sample::select(vec!["a", "b/", "/c"])),
    ) {
        let scratch = Scratch::new();
        let outside = scratch.0.join("b");
        fs::write(&outside, "outside").unwrap();
        let entries: Vec<_> = entries.iter().map(|(kind, path, text)| (*kind, path.as_str(), text.as_str())).collect();
        let exclude = Exclude::new(exclude);
        let result = unpack(archive(&entries).as_slice(), &scratch.root(), &scratch.0.join("aside"), &exclude);
        prop_assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
        prop_assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 3);
        match result {
            Ok(_) => {
                let root = fs::canonicalize(scratch.root()).unwrap();
                let mut todo = vec![scratch.root()];
                while let Some(directory) = todo.pop() {
                    for entry in fs::read_dir(directory).unwrap() {
                        let path = entry.unwrap().path();
                        if fs::symlink_metadata(&path).unwrap().is_dir() {
                            todo.push(path);
                        } else if let Ok(real) = fs::canonicalize(&path) {
                            prop_assert!(real.starts_with(&root), "{path:?} leads out");
                        }
                    }
                }
            }
            Err(error) => prop_assert_eq!(error.fault, Fault::ArchiveUnsafe),
        }
    }
}
