//! A command's parameters → the one shell script that runs it. Every value is single-quoted, so nothing in it is ever
//! read as shell syntax. Does no I/O.

use crate::error::Fault;

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
        Ok(())
    }

    /// The working directory to ask for; an empty one is none.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref().filter(|cwd| !cwd.is_empty())
    }

    /// `cd -- 'DIR' || exit`, then `exec env NAME='VALUE' … 'COMMAND' 'ARG' … [< 'STDIN FILE']`. A login shell changes
    /// the directory itself since its profile may have left the one that the process was started in.
    pub fn script(&self, stdin_path: Option<&str>) -> String {
        let mut script = String::new();
        if let Some(cwd) = self.cwd() {
            script.push_str("cd -- ");
            quote_into(&mut script, cwd);
            script.push_str(" || exit\n");
        }
        script.push_str("exec env ");
        for (i, (name, value)) in self.env.iter().enumerate() {
            if i > 0 {
                script.push(' ');
            }
            script.push_str(name);
            script.push('=');
            quote_into(&mut script, value.as_deref().unwrap_or_default());
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
        assert_eq!(command(&["echo", "it's"]).script(None), r#"exec env  'echo' 'it'"'"'s'"#);
    }

    #[test]
    fn directory_environment_and_standard_input_have_their_places() {
        let mut make = command(&["make"]);
        make.cwd = Some("/a b".into());
        make.env = vec![("A".into(), Some("1".into())), ("_b".into(), Some(String::new()))];
        assert_eq!(make.script(Some("/tmp/in")), "cd -- '/a b' || exit\nexec env A='1' _b='' 'make' < '/tmp/in'");
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
}
