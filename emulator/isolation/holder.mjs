// Process 1 of a sandbox: it holds the sandbox's namespaces open while no command runs, and when it ends the kernel
// kills everything in them, however far a process has detached itself. It is `cat`: its standard input is a lifeline
// whose other end only the emulator has, so it ends when the emulator does, by whatever cause. SIGCHLD ignored, the
// kernel reaps the orphans it inherits. How the namespaces come about is in namespaces.mjs and bubblewrap.mjs.
import { spawn } from "node:child_process";
import { childrenOf } from "../proc.mjs";
import { sendSignal } from "../signals.mjs";

/** What process 1 runs once the sandbox's root is in place. */
export const HOLD = `
echo ready
exec >/dev/null
if env --ignore-signal=CHLD true 2>/dev/null; then exec env --ignore-signal=CHLD cat; fi
# Bash passes an ignored SIGCHLD on; other shells do not, but they come with the env above.
trap '' CHLD
exec cat
`;

export class Holder {
  #outer;
  #ended;

  /** Process 1 as the host numbers it. */
  pid = 0;

  /**
   * @param {string[]} argv starts process 1, as a child of its own, in new namespaces
   * @returns {Promise<Holder>}
   */
  static async start(argv) {
    const holder = new Holder();
    // Detached: Ctrl-C in the emulator's terminal is for the emulator alone.
    const outer = spawn(argv[0], argv.slice(1), {
      stdio: ["pipe", "pipe", "pipe"], detached: true, cwd: "/", env: { PATH: process.env.PATH ?? "", LC_ALL: "C" },
    });
    holder.#outer = outer;
    let errors = "";
    outer.stdin.on("error", () => {});
    outer.stderr.on("data", (text) => (errors = (errors + text).slice(-500)));
    await new Promise((resolve, reject) => {
      let output = "";
      holder.#ended = new Promise((ended) => {
        outer.on("error", (error) => (reject(error), ended()));
        outer.on("exit", ended);
      });
      outer.stdout.on("data", (text) => (output += text).includes("ready\n") && resolve());
      holder.#ended.then(() => reject(new Error(`no sandbox could be set up: ${errors.trim() || "ended early"}`)));
    });
    holder.pid = childrenOf(outer.pid)[0] ?? 0;
    if (holder.pid === 0) {
      await holder.close();
      throw new Error("no sandbox could be set up: its first process was not found");
    }
    return holder;
  }

  /** Kills everything in the sandbox. The kernel does it; `close` tells when it is done. */
  kill() {
    this.#outer.stdin.destroy();
    if (this.pid) sendSignal(this.pid, "SIGKILL");
  }

  /** Resolves when no process of the sandbox is left: process 1 is reaped last (pid_namespaces(7)). */
  async close() {
    this.kill();
    await this.#ended;
  }
}
