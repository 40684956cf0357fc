//! A command's parameters → the one shell script that runs it. Every value is single-quoted, so nothing in it is ever
//! read as shell syntax. Does no I/O.

use crate::{config::Staging, error::Fault};

/// A longer script is staged as a file. The kernel takes no argument of 128 KiB, and `bash -lc SCRIPT` is one.
pub const MAX_INLINE: usize = 96 * 1024;

/// What the kernel takes of one argument, or of one variable with its name: a byte less than this.
const MAX_WORD: usize = 131_072;

/// Variables that bash does not let anybody set, so that only `env` can.
const READ_ONLY: [&str; 6] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"];

/// What a caller wants to run.
#[derive(Clone, Debug, Default)]
pub struct Command {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    /// Names and values in the caller's order; `None` stands for a value that is no text.
    pub env: Vec<(String, Option<String>)>,
    pub stdin: Option<String>,
}

impl Command {
    /// Refuses what no script can express, in the order in which its faults are told.
    pub fn check(&self) -> Result<(), Fault> {
        if self.command.is_empty() {
            return Err(Fault::CommandMissing);
        }
        if self.env.iter().any(|(name, value)| !is_variable_name(name) || value.is_none()) {
            return Err(Fault::EnvironmentInvalid);
        }
        let values = self.env.iter().filter_map(|(_, value)| value.as_ref());
        let mut all = values.chain(&self.args).chain(&self.cwd).chain([&self.command]);
        if all.any(|value| value.contains('\0')) {
            return Err(Fault::NulInCommand);
        }
        let variables = self.env.iter().map(|(name, value)| name.len() + 1 + value.as_ref().map_or(0, String::len));
        let words = self.args.iter().chain([&self.command]).map(String::len);
        if variables.chain(words).any(|length| length >= MAX_WORD) {
            return Err(Fault::ValueTooLarge);
        }
        Ok(())
    }

    /// The working directory to ask for; an empty one is none.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref().filter(|cwd| !cwd.is_empty())
    }

    /// `cd -- 'DIR' || exit`, then `exec env NAME='VALUE' … 'COMMAND' 'ARG' … [< 'STDIN FILE']`. A login shell changes
    /// the directory itself since its profile may have left the one that the process was started in.
    ///
    /// With [`Staging::Always`] the shell exports the variables instead, since `env`'s arguments are there for all to see.
    pub fn script(&self, stdin_path: Option<&str>, staging: Staging) -> String {
        let mut script = String::new();
        if let Some(cwd) = self.cwd() {
            script.push_str("cd -- ");
            quote_into(&mut script, cwd);
            script.push_str(" || exit\n");
        }
        let exported = |name: &str| staging == Staging::Always && !READ_ONLY.contains(&name);
        for variable in self.env.iter().filter(|(name, _)| exported(name)) {
            script.push_str("export ");
            assign_into(&mut script, variable);
            script.push('\n');
        }
        script.push_str("exec env ");
        let mut separator = "";
        for variable in self.env.iter().filter(|(name, _)| !exported(name)) {
            script.push_str(separator);
            assign_into(&mut script, variable);
            separator = " ";
        }
        if self.command.starts_with('-') || self.command.contains('=') {
            // An option or a variable to `env`, a program to a shell that is told so.
            script.push_str(r#" /bin/bash -c 'exec -- "$0" "$@"'"#);
        }
        for word in [&self.command].into_iter().chain(&self.args) {
            script.push(' ');
            quote_into(&mut script, word);
        }
        if let Some(path) = stdin_path {
            script.push_str(" < ");
            quote_into(&mut script, path);
        }
        script
    }
}

/// Whether a script has to be a file.
pub fn is_staged(script: &str, staging: Staging) -> bool {
    staging == Staging::Always || script.len() > MAX_INLINE
}

fn assign_into(script: &mut String, (name, value): &(String, Option<String>)) {
    script.push_str(name);
    script.push('=');
    quote_into(script, value.as_deref().unwrap_or_default());
}

/// One word for a POSIX shell. There is no way to write a NUL.
pub fn shell_quote(value: &str) -> Result<String, Fault> {
    if value.contains('\0') {
        return Err(Fault::NulInCommand);
    }
    let mut quoted = String::with_capacity(value.len() + 2);
    quote_into(&mut quoted, value);
    Ok(quoted)
}

fn quote_into(script: &mut String, value: &str) {
    script.push('\'');
    for (i, part) in value.split('\'').enumerate() {
        if i > 0 {
            script.push_str(r#"'"'"'"#);
        }
        script.push_str(part);
    }
    script.push('\'');
}

fn is_variable_name(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(word) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Command {
        Command {
            command: words[0].into(),
            args: words[1..].iter().map(|&word| word.into()).collect(),
            ..Command::default()
        }
    }

    #[test]
    fn a_plain_command_is_run_by_env() {
        assert_eq!(command(&["echo", "it's"]).script(None, Staging::Large), r#"exec env  'echo' 'it'"'"'s'"#);
    }

    #[test]
    fn directory_environment_and_standard_input_have_their_places() {
        let mut make = command(&["make"]);
        make.cwd = Some("/a b".into());
        make.env = vec![("A".into(), Some("1".into())), ("_b".into(), Some(String::new()))];
        assert_eq!(
            make.script(Some("/tmp/in"), Staging::Large),
            "cd -- '/a b' || exit\nexec env A='1' _b='' 'make' < '/tmp/in'"
        );
    }

    #[test]
    fn a_staged_environment_is_exported_where_the_shell_can() {
        let mut make = command(&["make"]);
        make.env = vec![("A".into(), Some("1".into())), ("UID".into(), Some("2".into()))];
        assert_eq!(make.script(None, Staging::Always), "export A='1'\nexec env UID='2' 'make'");
    }

    #[test]
    fn a_name_that_env_would_take_for_something_else_is_run_by_a_shell() {
        for name in ["-x", "a=b"] {
            let script = command(&[name, "arg"]).script(None, Staging::Large);
            assert_eq!(script, format!(r#"exec env  /bin/bash -c 'exec -- "$0" "$@"' '{name}' 'arg'"#));
        }
    }

    #[test]
    fn a_value_that_no_kernel_takes_is_refused() {
        let mut big = command(&["echo", &"x".repeat(131_071)]);
        assert_eq!(big.check(), Ok(()));
        big.args[0].push('x');
        assert_eq!(big.check(), Err(Fault::ValueTooLarge));
        big.args.clear();
        big.env = vec![("A".into(), Some("x".repeat(131_069)))];
        assert_eq!(big.check(), Ok(()));
        big.env[0].0 = "AB".into();
        assert_eq!(big.check(), Err(Fault::ValueTooLarge));
    }

    #[test]
    fn faults_are_told_in_order() {
        let mut bad = command(&["a\0"]);
        bad.env = vec![("A".into(), Some("\0".into())), ("1B".into(), Some("x".into()))];
        assert_eq!(bad.check(), Err(Fault::EnvironmentInvalid));
        bad.env.pop();
        assert_eq!(bad.check(), Err(Fault::NulInCommand));
        bad.env[0].1 = None;
        assert_eq!(bad.check(), Err(Fault::EnvironmentInvalid));
        bad.command = String::new();
        assert_eq!(bad.check(), Err(Fault::CommandMissing));
    }

    proptest::proptest! {
        #[test]
        fn a_shell_reads_back_what_was_quoted(words in proptest::collection::vec("[^\0]*", 1..4)) {
            let line: Vec<String> = words.iter().map(|word| shell_quote(word).unwrap()).collect();
            proptest::prop_assert_eq!(shlex::split(&line.join(" ")), Some(words));
        }
    }

    #[cfg(unix)]
    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn so_does_the_systems_own(words in proptest::collection::vec("[^\0]*|['\"\\\\$`\n !*~#=-]{1,9}", 1..4)) {
            let line: Vec<String> = words.iter().map(|word| shell_quote(word).unwrap()).collect();
            let script = format!("printf '%s\\0' {}", line.join(" "));
            let printed = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap().stdout;
            let expected: Vec<u8> = words.iter().flat_map(|word| word.bytes().chain([0])).collect();
            proptest::prop_assert_eq!(printed, expected);
        }
    }
}
