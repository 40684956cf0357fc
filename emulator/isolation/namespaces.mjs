// A sandbox by `unshare`: user, mount and process namespaces, for which neither root nor an installed helper is
// needed. Its root is a small tmpfs holding the host's top-level entries, except for those that are the sandbox's
// own: that is how /paperclip-workspace can exist there without a directory on the host.
import { mkdirSync } from "node:fs";
import path from "node:path";
import { Holder, HOLD } from "./holder.mjs";
import { findTools } from "./tools.mjs";

/** The paths that each sandbox has for itself, and the directory each is kept in. */
export const OWN_PATHS = { "/paperclip-workspace": "workspace", "/tmp": "tmp", "/root": "home" };

// Recursive binds, since a user namespace may not uncover what the host has mounted over. `pivot_root . .` puts the
// old root on top of the new one, from where it is detached (pivot_root(2)).
const BUILD_ROOT = `
set -e
root=$1; directory=$2
mount -t tmpfs -o mode=755 sandbox "$root"
for entry in /* /.[!.]*; do
  case $entry in ${Object.keys(OWN_PATHS).join("|")}|/proc) continue ;; esac
  if [ -L "$entry" ]; then ln -s "$(readlink "$entry")" "$root$entry"
  elif [ -d "$entry" ]; then mkdir "$root$entry"; mount --rbind "$entry" "$root$entry" || rmdir "$root$entry"
  elif [ -f "$entry" ]; then : > "$root$entry"; mount --bind "$entry" "$root$entry" || rm "$root$entry"
  fi
done
mkdir "$root/proc"
mount -t proc proc "$root/proc"
${Object.entries(OWN_PATHS).map(([mount, kept]) => `mkdir "$root${mount}"; mount --bind "$directory/${kept}" "$root${mount}"`).join("\n")}
cd "$root"
pivot_root . .
umount -l .
cd /
`;

/** Makes the directories that a sandbox keeps its own paths in. @param {string} directory */
export function makeOwnDirectories(directory) {
  for (const kept of Object.values(OWN_PATHS)) mkdirSync(path.join(directory, kept), { mode: 0o755 });
}

/**
 * @param {string} directory an empty directory for this sandbox
 * @returns {Promise<Holder>}
 */
export function openNamespaces(directory) {
  const { unshare, sh } = findTools(["unshare", "sh", "mount", "umount", "pivot_root", "readlink"]);
  makeOwnDirectories(directory);
  const root = path.join(directory, "root");
  mkdirSync(root);
  return Holder.start([
    unshare, "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child",
    "--", sh, "-c", `PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin${BUILD_ROOT}${HOLD}`, "sh", root, directory,
  ]);
}
