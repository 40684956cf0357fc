//! Any command → its script: a parser that is not ours reads back every word, outside of quotes there is nothing that the
//! caller wrote, and what is refused is what the contract refuses.
#![no_main]

use createos_native::{
    config::Staging,
    error::Fault,
    process::script::{Command, shell_quote},
};
use createos_native_fuzz::dice::Dice;
use libfuzzer_sys::fuzz_target;

/// Variables that only `env` can set.
const READ_ONLY: [&str; 6] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"];

/// The smallest argument that no kernel takes.
const TOO_LARGE: usize = 128 * 1024;

fn command(dice: &mut Dice) -> Command {
    let command = text(dice);
    let cwd = (dice.below(2) == 1).then(|| text(dice));
    let env = (0..dice.below(4)).map(|_| (name(dice), (dice.below(16) != 15).then(|| text(dice)))).collect();
    let args = (0..dice.below(6)).map(|_| text(dice)).collect();
    Command { command, args, cwd, env, stdin: None }
}

/// Short, or near the size that is too large.
fn text(dice: &mut Dice) -> String {
    let text = dice.text();
    match text.strip_suffix('\u{7f}') {
        Some(text) => text.chars().cycle().take(TOO_LARGE - dice.below(16)).collect(),
        None => text,
    }
}

fn name(dice: &mut Dice) -> String {
    let index = dice.below(READ_ONLY.len() + 3);
    READ_ONLY.get(index).map_or_else(|| dice.text(), |name| (*name).to_owned())
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().enumerate().all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit()))
}

fn expected_fault(command: &Command) -> Option<Fault> {
    let Command { command: program, args, cwd, env, .. } = command;
    let words: Vec<&String> = args.iter().chain([program]).collect();
    let has_nul = |text: &String| text.contains('\0');
    let variable =
        |(name, value): &(String, Option<String>)| format!("{name}={}", value.as_deref().unwrap_or_default());
    if program.is_empty() {
        Some(Fault::CommandMissing)
    } else if !env.iter().all(|(name, value)| is_name(name) && value.is_some()) {
        Some(Fault::EnvironmentInvalid)
    } else if words.iter().any(|word| has_nul(word))
        || cwd.iter().any(has_nul)
        || env.iter().any(|it| has_nul(&variable(it)))
    {
        Some(Fault::NulInCommand)
    } else if words.iter().any(|word| word.len() >= TOO_LARGE) || env.iter().any(|it| variable(it).len() >= TOO_LARGE) {
        Some(Fault::ValueTooLarge)
    } else {
        None
    }
}

/// The script's words and what is outside of quotes, each quoted part standing as `''`.
fn expected(command: &Command, stdin: Option<&str>, staging: Staging) -> (Vec<String>, String) {
    let (mut words, mut outside) = (Vec::new(), String::new());
    let mut push = |text: &str, quoted: Option<&str>| {
        outside.push_str(text);
        let mut plain: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if let Some(value) = quoted {
            outside.push_str("''");
            // Right after a name and its `=`, a value is part of the same word.
            match plain.last_mut().filter(|_| text.ends_with('=')) {
                Some(last) => last.push_str(value),
                None => plain.push(value.to_owned()),
            }
        }
        words.append(&mut plain);
    };
    if let Some(cwd) = command.cwd.as_deref().filter(|cwd| !cwd.is_empty()) {
        push("cd -- ", Some(cwd));
        push(" || exit\n", None);
    }
    let value = |value: &Option<String>| value.clone().unwrap_or_default();
    let exported = |name: &str| staging == Staging::Always && !READ_ONLY.contains(&name);
    for (name, it) in command.env.iter().filter(|(name, _)| exported(name)) {
        push(&format!("export {name}="), Some(&value(it)));
        push("\n", None);
    }
    push("exec env ", None);
    for (at, (name, it)) in command.env.iter().filter(|(name, _)| !exported(name)).enumerate() {
        push(&format!("{}{name}=", if at > 0 { " " } else { "" }), Some(&value(it)));
    }
    if command.command.starts_with('-') || command.command.contains('=') {
        push(" /bin/bash -c ", Some(r#"exec -- "$0" "$@""#));
    }
    for word in [&command.command].into_iter().chain(&command.args) {
        push(" ", Some(word));
    }
    if let Some(stdin) = stdin {
        push(" < ", Some(stdin));
    }
    (words, outside)
}

/// A script with each run of quoted parts as `''`.
fn outside(script: &str) -> String {
    let mut outside = String::new();
    let mut rest = script;
    while let Some(at) = rest.find(['\'', '"']) {
        let (before, quoted) = rest.split_at(at);
        let quote = &quoted[..1];
        let (inside, after) = quoted[1..].split_once(quote).expect("a quote that is closed");
        assert!(quote == "'" || inside == "'", "double quotes hold nothing but a quote");
        outside.push_str(before);
        if !(before.is_empty() && outside.ends_with("''")) {
            outside.push_str("''");
        }
        rest = after;
    }
    outside + rest
}

fuzz_target!(|input: &[u8]| {
    let dice = &mut Dice::new(input);
    let staging = dice.one_of(&[Staging::Large, Staging::Always]);
    let stdin = (dice.below(2) == 1).then_some("/tmp/it's");
    let command = command(dice);

    for text in [&command.command].into_iter().chain(&command.args) {
        match shell_quote(text) {
            Err(fault) => assert!(fault == Fault::NulInCommand && text.contains('\0')),
            Ok(quoted) => assert_eq!(shell_words::split(&quoted), Ok(vec![text.clone()])),
        }
    }

    let check = command.check();
    assert_eq!(check.clone().err(), expected_fault(&command));
    if check.is_ok() {
        let script = command.script(stdin, staging);
        let (words, skeleton) = expected(&command, stdin, staging);
        assert_eq!(shell_words::split(&script).expect("words"), words);
        assert_eq!(outside(&script), skeleton);
    }
});
