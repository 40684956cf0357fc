// Chooses how sandboxes are kept apart on this host, by trying: bubblewrap, then namespaces by `unshare`, then nothing
// but a warning. A choice is what the rest of the emulator sees: how to open a sandbox, how to start a program in it,
// where its files are, and by which mark the processes of one command are known.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { openBubblewrap } from "./bubblewrap.mjs";
import { openNamespaces } from "./namespaces.mjs";
import { findTools } from "./tools.mjs";

const WORKSPACE = "/paperclip-workspace";
const run = promisify(execFile);
const OPENERS = { bubblewrap: openBubblewrap, namespaces: openNamespaces };
// The marks that can tell the commands of one sandbox apart: a namespace of its own, of a kind that no command cares
// about, is inherited through fork, setsid and a cleared environment alike.
const MARKS = ["time", "cgroup", "uts"];

/**
 * @typedef {object} Isolation
 * @property {"bubblewrap"|"namespaces"|"shared"} kind
 * @property {string|null} mark kind of the namespace that each command gets for itself
 * @property {(directory: string) => Promise<SandboxRoot>} open
 * @property {string[]} warnings
 *
 * @typedef {object} SandboxRoot
 * @property {number} pid process 1 on the host; 0 when paths and processes are shared
 * @property {string} root where the sandbox's `/` is for the emulator; empty for the host's
 * @property {string} home
 * @property {string} workspace where commands run that name no directory
 * @property {(argv: string[]) => string[]} enter the argv that runs `argv` inside, as the sandbox's own process
 * @property {() => void} kill
 * @property {() => Promise<void>} close
 */

/** @type {Map<string, Promise<Isolation>>} */
const choices = new Map();

/**
 * What this host offers does not change while a program runs, so it is tried once.
 * @param {"auto"|"bubblewrap"|"namespaces"|"shared"} wanted
 * @returns {Promise<Isolation>}
 */
export function chooseIsolation(wanted) {
  let choice = choices.get(wanted);
  if (!choice) {
    choice = choose(wanted);
    choices.set(wanted, choice);
    choice.catch(() => choices.delete(wanted));
  }
  return choice;
}

async function choose(wanted) {
  if (wanted === "shared") return shared([]);
  const reasons = [];
  for (const kind of wanted === "auto" ? Object.keys(OPENERS) : [wanted]) {
    try {
      return await tryOut(kind);
    } catch (error) {
      reasons.push(`${kind}: ${error.message.trim().split("\n")[0]}`);
    }
  }
  if (wanted !== "auto") throw new Error(`This host cannot isolate sandboxes as asked for (${reasons.join("; ")}).`);
  return shared([
    "Sandboxes are not isolated on this host: all of them share its /tmp, /paperclip-workspace and processes, and "
    + `what a command leaves running may survive the emulator (${reasons.join("; ")}).`,
  ]);
}

/** Opens a sandbox for trial and starts a program in it, with each mark until one works. */
async function tryOut(kind) {
  const tools = findTools(["nsenter", "unshare", "setsid", "sh", "mkfifo"]);
  const directory = await mkdtemp(path.join(tmpdir(), "createos-emulator-trial-"));
  try {
    const holder = await OPENERS[kind](directory);
    try {
      let failure;
      for (const mark of MARKS) {
        const isolation = isolated(kind, mark, tools);
        const [program, ...args] = isolation.attach(holder).enter(["/bin/sh", "-c", "exit 0"]);
        try {
          await run(program, args, { cwd: "/" });
          return isolation;
        } catch (error) {
          failure = error;
        }
      }
      throw failure;
    } finally {
      await holder.close();
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function isolated(kind, mark, tools) {
  /** @param {import("./holder.mjs").Holder} holder @returns {SandboxRoot} */
  const attach = (holder) => ({
    pid: holder.pid,
    root: `/proc/${holder.pid}/root`,
    home: "/root",
    workspace: WORKSPACE,
    // `nsenter --no-fork` becomes `unshare --fork`, which stays outside as the command's parent: it waits and ends
    // exactly as the command did, by the same code or the same signal, and is not fooled by a stopped command.
    // A session of its own keeps a command's `kill 0` from its parent.
    enter: (argv) => [
      tools.nsenter, "--target", String(holder.pid), "--user", "--mount", "--pid", "--preserve-credentials", "--no-fork",
      "--", tools.unshare, `--${mark}`, "--fork", "--kill-child", "--", tools.setsid, ...argv,
    ],
    kill: () => holder.kill(),
    close: () => holder.close(),
  });
  return { kind, mark, warnings: [], attach, open: async (directory) => attach(await OPENERS[kind](directory)) };
}

/** @param {string[]} warnings @returns {Isolation} */
function shared(warnings) {
  return {
    kind: "shared",
    mark: null,
    warnings,
    async open(directory) {
      const made = await mkdir(WORKSPACE).then(() => true, () => false);
      const workspace = existsSync(WORKSPACE) ? WORKSPACE : directory;
      return {
        pid: 0, root: "", home: process.env.HOME ?? "/", workspace, enter: (argv) => argv, kill() {},
        // Only when it is empty: there may be something in it that somebody wants.
        async close() {
          if (made) await rmdir(WORKSPACE).catch(() => {});
        },
      };
    },
  };
}
