use super::*;

fn excludes(pattern: &str, path: &str) -> bool {
    Exclude::new([pattern]).covers(path.as_bytes(), false)
}

#[test]
fn the_grammar() {
    for (pattern, out, stays) in [
        ("node_modules", "node_modules a/node_modules a/node_modules/b/c", "node_modules2 xnode_modules"),
        ("a/b", "a/b x/a/b a/b/c", "a a/x/b ab"),
        ("/a", "a a/b", "x/a"),
        ("./a", "a a/b", "x/a"),
        ("*.log", "x.log .log a/x.log d.log/file", "xlog x.log2"),
        ("a?c", "abc a€c", "ac abbc"),
        ("[a-c]x", "ax bx", "dx x abx"),
        ("[!a-c]x", "dx €x", "ax x"),
        ("[]x]y", "]y xy", "y"),
        ("[a", "[a", "a"),
        ("a/**", "a/b a/b/c x/a/b", "a x/a b"),
        ("**/a", "a b/a b/c/a", "ab"),
        ("/**/a", "a b/a", "ab"),
        ("a/**/b", "a/b a/x/b a/x/y/b", "a b ab"),
        ("{a,b}c", "ac bc", "c abc {a,b}c"),
        ("x{,{1,2}}", "x x1 x2", "x3 x{"),
        ("{a}", "{a}", "a"),
        ("\\*", "*", "a"),
        ("\\{a,b}", "{a,b}", "a b"),
        ("**", "a a/b", ""),
        ("", "", "a a/b"),
        ("/", "", "a"),
        (".", "", "a .a"),
        ("a/", "a/b", "a"),
    ] {
        for path in out.split_whitespace() {
            assert!(excludes(pattern, path), "{pattern} leaves {path} out");
        }
        for path in stays.split_whitespace() {
            assert!(!excludes(pattern, path), "{pattern} does not leave {path} out");
        }
    }
    assert!(Exclude::new(["a/"]).covers(b"a", true));
    assert!(Exclude::new(["?"]).covers(b"\xff", false));
}

#[test]
fn a_pattern_that_multiplies_is_taken_as_written() {
    let pattern = "{a,b}".repeat(20);
    assert!(excludes(&pattern, &pattern));
}

#[test]
fn a_remote_tar_gets_only_what_means_the_same_to_it() {
    let exclude = Exclude::new([
        "node_modules",
        "dist/cache",
        "*.log",
        "tmp*",
        "{a,b}",
        "/root",
        "dir/",
        ".*",
        "a*b",
        "a/*",
        "?",
        "[ab]",
        "**/x",
        "*",
        "\\*",
    ]);
    assert_eq!(exclude.for_tar(), ["node_modules", "dist/cache", "*.log", "tmp*", "a", "b"]);
}

proptest::proptest! {
    #[test]
    fn a_name_without_wildcards_matches_itself_alone(name in "[a-z]{1,4}", other in "[a-z]{1,4}") {
        proptest::prop_assert_eq!(excludes(&name, &other), name == other);
    }

    #[test]
    fn nothing_makes_it_panic_or_hang(pattern in "[ab*?{},/\\[\\]!\\\\-]{0,30}", path in "[ab/]{0,30}") {
        let exclude = Exclude::new([pattern.as_str()]);
        let _ = (exclude.covers(path.as_bytes(), true), exclude.for_tar());
    }
}
