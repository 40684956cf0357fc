//! Paths in a sandbox, confined to its workspace twice: by their text before anything travels, and by what they lead to in
//! the sandbox right before something is done there. Builds scripts, and runs none.

use uuid::Uuid;

use super::exclude::Exclude;
use crate::{error::Fault, lease::WORKSPACE, process::script::shell_quote};

/// A path of the workspace, by its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePath(String);

impl RemotePath {
    pub fn parse(path: &str) -> Result<Self, Fault> {
        if !path.starts_with('/') || path.contains('\0') || path.split('/').any(|part| part == "..") {
            return Err(Fault::RemotePathUnconfined);
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        let normal = format!("/{}", parts.join("/"));
        let inside = normal.strip_prefix(WORKSPACE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if inside { Ok(Self(normal)) } else { Err(Fault::RemotePathEscapes) }
    }

    pub fn workspace() -> Self {
        Self(WORKSPACE.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The beginning of a script: proves that the path leads into the workspace and leaves where to in `$resolved`; says why
    /// and ends the script otherwise, also where the sandbox cannot tell. `refuse REASON` does so for what follows.
    pub fn guard(&self) -> Result<String, Fault> {
        let (root, path) = (shell_quote(WORKSPACE)?, shell_quote(&self.0)?);
        // What realpath itself has against a path it says. The dot keeps line breaks at the end of a name.
        Ok(format!(
            "path={path}; refuse() {{ printf '%q: %s\\n' \"$path\" \"$1\" >&2; exit 1; }}; \
             root=$(realpath -- {root}) && resolved=$(realpath -m -- \"$path\" && echo .) || exit 1; \
             resolved=${{resolved%$'\\n.'}}; [ \"$root\" = {root} ] || refuse 'the workspace is a link'; \
             case \"$resolved\" in {root}|{root}/*) ;; *) refuse 'a link leads out of the workspace' ;; esac"
        ))
    }

    /// Likewise, for what is there already: `test` is the option of `test` for `kind`.
    fn guard_source(&self, test: &str, kind: &str) -> Result<String, Fault> {
        Ok(format!(
            "{}; [ -e \"$resolved\" ] || refuse 'it does not exist'; [ {test} \"$resolved\" ] || refuse 'it is no {kind}'",
            self.guard()?
        ))
    }
}

/// A file of one transfer's own, outside of the workspace.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub path: String,
    /// A name for what is put together next to its target: it appears there whole.
    beside: String,
}

/// Tars that differ from each other by their surroundings shall not.
const TAR: &str = "LC_ALL=C TAR_OPTIONS= tar";

impl Default for Scratch {
    fn default() -> Self {
        let id = Uuid::new_v4();
        Self { path: format!("/tmp/paperclip-sync-{id}"), beside: format!(".createos-sync-{id}") }
    }
}

impl Scratch {
    /// Sets `$temp` to a place next to the target, which does not outlive the script.
    fn beside(&self) -> String {
        format!(
            "parent=${{resolved%/*}} && mkdir -p -- \"$parent\" && temp=$parent/{} && \
             trap 'rm -rf -- \"$temp\"' EXIT",
            self.beside
        )
    }

    /// The scratch file becomes the target.
    pub fn place_file(&self, target: &RemotePath, mode: u32) -> Result<String, Fault> {
        Ok(format!(
            "{}; {} && mv -f -- '{}' \"$temp\" && chmod {mode:o} -- \"$temp\" && mv -fT -- \"$temp\" \"$resolved\"",
            target.guard()?,
            self.beside(),
            self.path
        ))
    }

    /// The archive's entries become the target's: a new one appears whole, an existing one gets them one by one.
    pub fn place_directory(&self, target: &RemotePath, mode: u32) -> Result<String, Fault> {
        // GNU tar would take a backslash in the argument of `-C` for the beginning of an escape.
        let unpack =
            |to: &str| format!("(cd -- \"${to}\" && {TAR} -xpf '{}') && chmod {mode:o} -- \"${to}\"", self.path);
        Ok(format!(
            "{}; if [ -d \"$resolved\" ]; then {}; else {} && mkdir -- \"$temp\" && {} && \
             mv -T -- \"$temp\" \"$resolved\"; fi && rm -f -- '{}'",
            target.guard()?,
            unpack("resolved"),
            self.beside(),
            unpack("temp"),
            self.path
        ))
    }

    /// Copies the source to the scratch file and prints its size.
    pub fn take_file(&self, source: &RemotePath) -> Result<String, Fault> {
        Ok(format!(
            "{}; cp -- \"$resolved\" '{scratch}' && wc -c < '{scratch}'",
            source.guard_source("-f", "regular file")?,
            scratch = self.path
        ))
    }

    /// Archives the source into the scratch file and prints its size. GNU tar exits with 1 when files changed or vanished
    /// under its hands: the archive is whole all the same. Other tars exit with 1 when it is not.
    pub fn take_directory(&self, source: &RemotePath, exclude: &Exclude, follow: bool) -> Result<String, Fault> {
        let mut options = String::new();
        if follow {
            options.push_str("-h ");
        }
        for pattern in exclude.for_tar() {
            options.push_str(&format!("--exclude={} ", shell_quote(&pattern)?));
        }
        Ok(format!(
            "{}; cd -- \"$resolved\" && {{ {TAR} {options}-cf '{scratch}' . || \
             {{ [ $? -eq 1 ] && tar --version | grep -q GNU; }}; }} && wc -c < '{scratch}'",
            source.guard_source("-d", "directory")?,
            scratch = self.path
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_confined_by_its_text() {
        for (path, parsed) in [
            ("/paperclip-workspace", Ok("/paperclip-workspace")),
            ("//paperclip-workspace/./a//b/", Ok("/paperclip-workspace/a/b")),
            ("/paperclip-workspace/..a", Ok("/paperclip-workspace/..a")),
            ("relative", Err(Fault::RemotePathUnconfined)),
            ("", Err(Fault::RemotePathUnconfined)),
            ("/paperclip-workspace/a\0", Err(Fault::RemotePathUnconfined)),
            ("/paperclip-workspace/a/../b", Err(Fault::RemotePathUnconfined)),
            ("/paperclip-workspace-other/a", Err(Fault::RemotePathEscapes)),
            ("/etc/passwd", Err(Fault::RemotePathEscapes)),
            ("/", Err(Fault::RemotePathEscapes)),
        ] {
            assert_eq!(RemotePath::parse(path).as_ref().map(RemotePath::as_str), parsed.as_deref(), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_leads_out(path in "(/paperclip-workspace)?[a./]{0,20}") {
            if let Ok(path) = RemotePath::parse(&path) {
                let inside = path.as_str() == WORKSPACE || path.as_str().starts_with("/paperclip-workspace/");
                proptest::prop_assert!(inside && !path.as_str().contains("/../") && !path.as_str().ends_with("/.."));
            }
        }
    }
}
