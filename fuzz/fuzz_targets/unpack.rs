//! Any archive → a directory: never a panic, nothing outside of the directory is written, made or linked, no link that is
//! left leads out of it by the kernel's own judgement, and memory is bounded whatever the archive claims. Linux only.
#![no_main]

use std::{
    ffi::CString,
    fs, io,
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
    sync::LazyLock,
};

use createos_native::{
    error::{Fault, HostFault},
    sync::{exclude::Exclude, unpack::unpack},
};
use createos_native_fuzz::{archive::archive, dice::Dice, memory::most_held};
use libfuzzer_sys::fuzz_target;

/// A directory of this process's own. Beside the target is what must not be touched.
static BASE: LazyLock<PathBuf> = LazyLock::new(|| {
    let base = std::env::temp_dir().join(format!("createos-fuzz-{}", std::process::id()));
    let outside = base.join("outside");
    fs::create_dir_all(outside.join("a/b")).expect("a directory");
    fs::write(outside.join("c"), "content").expect("a file");
    symlink("a", outside.join("d")).expect("a link");
    base
});

/// Everything below a path that is not in one of these, by its name; of all that an unpacker could change.
fn state(path: &Path, but: &[&Path]) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    walk(path, but, &mut |path, metadata| {
        let content = if metadata.is_file() { fs::read(path).expect("content") } else { Vec::new() };
        let facts = (metadata.mode(), metadata.nlink(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec());
        let target = fs::read_link(path).ok();
        // What comes and goes in the base itself is not outside.
        let facts = if path == *BASE { String::new() } else { format!("{facts:?} {target:?} {content:?}") };
        all.push((path.to_owned(), facts));
    });
    all.sort();
    all
}

fn walk(path: &Path, but: &[&Path], each: &mut impl FnMut(&Path, &fs::Metadata)) {
    if but.contains(&path) {
        return;
    }
    let metadata = fs::symlink_metadata(path).expect("metadata");
    each(path, &metadata);
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            walk(&entry.expect("an entry").path(), but, each);
        }
    }
}

/// Whether the kernel, told not to leave `root`, would have to.
fn leads_out(root: libc::c_int, path: &Path) -> bool {
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path without NUL");
    // SAFETY: all zeros is a value of this type.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_BENEATH;
    // SAFETY: both pointers are to live values, of the size that is given.
    let opened = unsafe { libc::syscall(libc::SYS_openat2, root, path.as_ptr(), &how, size_of::<libc::open_how>()) };
    if opened >= 0 {
        // SAFETY: it was opened above and nobody else has it.
        unsafe { libc::close(opened as libc::c_int) };
        return false;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EXDEV) => true,
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EACCES | libc::ENAMETOOLONG) => false,
        other => panic!("openat2: {other:?}"),
    }
}

/// Gives so much at once, and perhaps an error at the end.
struct Source<'a> {
    bytes: &'a [u8],
    piece: usize,
    broken: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && self.broken {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let length = buffer.len().min(self.piece);
        self.bytes.read(&mut buffer[..length])
    }
}

fn empty(directory: &Path) {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
}

fuzz_target!(|input: &[u8]| {
    static UNTOUCHED: LazyLock<Vec<(PathBuf, String)>> = LazyLock::new(|| state(&BASE, &[]));
    LazyLock::force(&UNTOUCHED);
    let (root, aside) = (BASE.join("root"), BASE.join("aside"));
    empty(&root);
    empty(&aside);

    let dice = &mut Dice::new(input);
    let exclude = match dice.below(8) {
        count @ 0..3 => {
            (0..count).map(|_| dice.one_of(&["a", "b", "a/", "/b", "**/c", "[ab]", "*"]).to_owned()).collect()
        }
        3 => vec![dice.text()],
        _ => Vec::new(),
    };
    let exclude = Exclude::new(exclude.iter().map(String::as_str));
    let (piece, broken) = (1 + usize::from(dice.byte()).pow(2), dice.byte() == 255);
    let archive = archive(dice, BASE.join("outside").to_str().expect("a text"));

    let source = Source { bytes: &archive, piece, broken };
    let (result, held) = most_held(|| unpack(source, &root, &aside, &exclude));

    assert_eq!(state(&BASE, &[&root, &aside]), *UNTOUCHED, "nothing outside was touched");
    // A block of content, and a name as long as names may be.
    let bound = (256 << 10) + (1 << 20) + (64 << 10) + 16 * archive.len();
    assert!(held <= bound, "{held} bytes are held for an archive of {}", archive.len());

    let mut links = Vec::new();
    walk(&root, &[], &mut |path, metadata| {
        if metadata.is_symlink() {
            links.push(path.to_owned());
        }
        assert!(metadata.is_dir() || metadata.is_file() || metadata.is_symlink(), "{path:?}");
        assert_eq!(metadata.mode() & 0o7000, 0, "{path:?}");
    });
    match result {
        Ok(unpacked) => {
            assert!(unpacked.skips.named.len() as u64 <= unpacked.skips.total);
            let directory = fs::File::open(&root).expect("the root");
            for link in links {
                let below = link.strip_prefix(&root).expect("a path in the root");
                assert!(!leads_out(std::os::fd::AsRawFd::as_raw_fd(&directory), below), "{below:?} leads out");
            }
        }
        Err(error) => match error.fault {
            Fault::ArchiveUnsafe => {}
            Fault::HostFile(HostFault::NameInvalid) => {}
            Fault::HostFile(HostFault::Other) if broken => {}
            fault => panic!("{fault:?}"),
        },
    }
});
