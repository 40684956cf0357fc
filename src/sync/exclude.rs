//! Which entries of a directory do not travel: one grammar for both directions.
//!
//! A pattern is matched with whole parts of a path. `node_modules` is every entry of that name at any depth, `a/b` every
//! `b` in an `a`; what a pattern matches is left out with everything in it. A `/` or `./` in front ties a pattern to the
//! directory's root, one at the end to directories. In a part, `*` is any run of characters, also one that begins with a
//! dot, `?` one character, `[a-z]` and `[!a-z]` one of a set or none of it; `**` is any number of parts; `{a,b}` is either.
//! A backslash takes the meaning from what follows.

/// Braces can multiply; a pattern that means more than this many is taken as it is written.
const ALTERNATIVES: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Literal(char),
    One,
    Run,
    Set { ranges: Vec<(char, char)>, negated: bool },
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Glob(Vec<Token>),
    /// `**`
    Parts,
}

#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    parts: Vec<Part>,
    anchored: bool,
    directories: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Exclude {
    patterns: Vec<Pattern>,
}

impl Exclude {
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let patterns = patterns.into_iter().flat_map(alternatives);
        Self { patterns: patterns.filter_map(|pattern| Pattern::parse(&pattern)).collect() }
    }

    /// Whether an entry itself is matched; that nothing it is in was, the caller knows.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        self.matches_parts(&parts_of(path), is_directory)
    }

    /// Whether an entry is left out, by itself or with something that it is in.
    pub fn covers(&self, path: &[u8], is_directory: bool) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let parts = parts_of(path);
        (1..=parts.len()).any(|end| self.matches_parts(&parts[..end], is_directory || end < parts.len()))
    }

    fn matches_parts(&self, parts: &[Vec<char>], is_directory: bool) -> bool {
        self.patterns.iter().any(|pattern| {
            let starts = if pattern.anchored { 0..1 } else { 0..parts.len() };
            (is_directory || !pattern.directories)
                && starts
                    .into_iter()
                    .any(|start| matches(&pattern.parts, &parts[start..], |part, name| part.matches(name)))
        })
    }

    /// Patterns for a remote `tar --exclude`, which spare the transfer what would be left out here anyway. Only those that
    /// mean the same to every tar: names and paths without wildcards, and names that begin or end with one `*`.
    pub fn for_tar(&self) -> Vec<String> {
        self.patterns.iter().filter_map(Pattern::for_tar).collect()
    }
}

impl Pattern {
    /// `None` for one that can match nothing.
    fn parse(pattern: &str) -> Option<Self> {
        let directories = pattern.ends_with('/');
        let anchored = pattern.starts_with('/') || pattern.starts_with("./");
        let parts = pattern.split('/').filter(|part| !matches!(*part, "" | "."));
        let mut parts: Vec<Part> = parts.map(|part| if part == "**" { Part::Parts } else { glob(part) }).collect();
        // What is in a directory is not the directory.
        if parts.last() == Some(&Part::Parts) {
            parts.push(Part::Glob(vec![Token::Run]));
        }
        (!parts.is_empty()).then_some(Self { parts, anchored, directories })
    }

    fn for_tar(&self) -> Option<String> {
        if self.anchored || self.directories {
            return None;
        }
        let mut parts = Vec::new();
        for part in &self.parts {
            let Part::Glob(tokens) = part else { return None };
            let (leading, tokens) = match tokens.split_first() {
                Some((Token::Run, rest)) => (true, rest),
                _ => (false, tokens.as_slice()),
            };
            let (trailing, tokens) = match tokens.split_last() {
                Some((Token::Run, rest)) if !leading => (true, rest),
                _ => (false, tokens),
            };
            let name = tokens.iter().map(|token| match token {
                Token::Literal(c) if !"*?[]\\".contains(*c) => Some(*c),
                _ => None,
            });
            let name: String = name.collect::<Option<_>>()?;
            // A tar's star can match slashes, too, and its names begin with "./".
            let plain = !leading && !trailing;
            if name.is_empty() || (!plain && self.parts.len() > 1) || (trailing && name.starts_with('.')) {
                return None;
            }
            parts.push(match (leading, trailing) {
                (true, _) => format!("*{name}"),
                (_, true) => format!("{name}*"),
                _ => name,
            });
        }
        Some(parts.join("/"))
    }
}

/// Something that stands for any run of what it is matched with, or for one.
trait Wild {
    fn is_run(&self) -> bool;
}

impl Wild for Part {
    fn is_run(&self) -> bool {
        *self == Self::Parts
    }
}

impl Wild for Token {
    fn is_run(&self) -> bool {
        *self == Self::Run
    }
}

impl Part {
    fn matches(&self, name: &[char]) -> bool {
        match self {
            Self::Glob(tokens) => matches(tokens, name, Token::matches),
            Self::Parts => true,
        }
    }
}

impl Token {
    fn matches(&self, character: &char) -> bool {
        match self {
            Self::Literal(literal) => literal == character,
            Self::One | Self::Run => true,
            Self::Set { ranges, negated } => {
                ranges.iter().any(|(low, high)| (low..=high).contains(&character)) != *negated
            }
        }
    }
}

/// Matches all of `items`. Going back to the last run alone is enough, so this takes no more than their product.
fn matches<P: Wild, T>(pattern: &[P], items: &[T], one: impl Fn(&P, &T) -> bool) -> bool {
    let (mut p, mut i) = (0, 0);
    let mut back = None;
    loop {
        match (pattern.get(p), items.get(i)) {
            (Some(wild), _) if wild.is_run() => {
                p += 1;
                back = Some((p, i));
            }
            (Some(pattern), Some(item)) if one(pattern, item) => (p, i) = (p + 1, i + 1),
            (None, None) => return true,
            _ => match back {
                Some((after, from)) if from < items.len() => {
                    (p, i) = (after, from + 1);
                    back = Some((after, from + 1));
                }
                _ => return false,
            },
        }
    }
}

fn parts_of(path: &[u8]) -> Vec<Vec<char>> {
    path.split(|&byte| byte == b'/').map(characters).collect()
}

/// A byte that is in no character counts as one that no pattern names.
fn characters(bytes: &[u8]) -> Vec<char> {
    let mut characters = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        characters.extend(chunk.valid().chars());
        characters.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
    characters
}

fn glob(part: &str) -> Part {
    let mut tokens = Vec::new();
    let mut rest = part.chars();
    while let Some(c) = rest.next() {
        tokens.push(match c {
            '*' if tokens.last() == Some(&Token::Run) => continue,
            '*' => Token::Run,
            '?' => Token::One,
            '[' => match set(rest.as_str()) {
                Some((token, after)) => {
                    rest = after.chars();
                    token
                }
                None => Token::Literal(c),
            },
            '\\' => Token::Literal(rest.next().unwrap_or(c)),
            _ => Token::Literal(c),
        });
    }
    Part::Glob(tokens)
}

/// The set that a `[` begins, and what comes after it; `None` if it is not closed.
fn set(text: &str) -> Option<(Token, &str)> {
    let inner = text.strip_prefix(['!', '^']);
    let (negated, mut rest) = (inner.is_some(), inner.unwrap_or(text).chars());
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let low = match rest.next()? {
            ']' if !ranges.is_empty() => return Some((Token::Set { ranges, negated }, rest.as_str())),
            '\\' => rest.next()?,
            c => c,
        };
        let mut ahead = rest.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) if high != ']' => {
                rest = ahead;
                high
            }
            _ => low,
        };
        ranges.push((low, high));
    }
}

/// A pattern without its braces, once for each alternative.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut todo = vec![pattern.to_owned()];
    while let Some(next) = todo.pop() {
        match braces(&next) {
            None => done.push(next),
            Some((before, inner, after)) => {
                todo.extend(inner.iter().rev().map(|choice| format!("{before}{choice}{after}")));
            }
        }
        if todo.len() + done.len() > ALTERNATIVES {
            return vec![pattern.to_owned()];
        }
    }
    done
}

/// The first braces with a choice in them: what is before, the choices, what is after.
fn braces(pattern: &str) -> Option<(&str, Vec<&str>, &str)> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut characters = pattern.char_indices();
    while let Some((at, c)) = characters.next() {
        match (c, open.last_mut()) {
            ('\\', _) => drop(characters.next()),
            ('{', _) => open.push((at, Vec::new())),
            (',', Some((_, commas))) => commas.push(at),
            ('}', Some(_)) => {
                let (start, commas) = open.pop()?;
                if commas.is_empty() {
                    continue;
                }
                let mut choices = Vec::new();
                let mut from = start + 1;
                for end in commas.into_iter().chain([at]) {
                    choices.push(&pattern[from..end]);
                    from = end + 1;
                }
                return Some((&pattern[..start], choices, &pattern[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
