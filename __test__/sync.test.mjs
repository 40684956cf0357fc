// Files and directories between this host and a sandbox: real files, real tar, real links.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFile, chmod, link, lstat, mkdir, open, readFile, readdir, rm, stat, symlink, truncate, writeFile } from "node:fs/promises";
import net from "node:net";
import path from "node:path";
import { test } from "node:test";
import { CreateosCleanupError } from "./support/package.mjs";
import { makeTar } from "./conformance/server.mjs";
import { startProgram } from "./support/emulator.mjs";
import { Host, temporary, tree, WORKSPACE } from "./support/lease.mjs";
import { until } from "./support/sandbox.mjs";
import { SOAK } from "./support/soak.mjs";

const COMMAND_FAILED = "CreateOS transfer command failed.";
const UNSAFE = "CreateOS archive contains unsafe entries or exceeds the extraction limit.";
const root = process.getuid?.() === 0;

/** What a call failed with. */
const failure = (promise) => promise.then((value) => assert.fail(`it gave ${JSON.stringify(value)}`), (error) => error);

const directory = (sourcePath, targetPath, more) => ({ sourcePath, targetPath, kind: "directory", ...more });
const file = (sourcePath, targetPath, more) => ({ sourcePath, targetPath, kind: "file", ...more });
const remote = (name) => `${WORKSPACE}/${name}`;

/** A host with a lease, a directory on this side, and faults that can be set at any time. */
async function start(t, settings = {}) {
  const faults = {};
  const request = (seen) => (seen.query.path?.startsWith("/tmp/paperclip-sync-") || !["upload", "download"].includes(seen.route)
    ? faults[seen.route]?.(seen) : undefined);
  const host = await Host.start(t, { emulator: { hooks: { request } }, ...settings });
  await host.acquire();
  return { host, faults, local: await temporary(t) };
}

/** Runs something while a file system in memory is mounted at a new directory. */
async function mounted(at, options, run) {
  await mkdir(at);
  execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", at]);
  try {
    await run();
  } finally {
    execFileSync("umount", [at]);
  }
}

/** Lets requests of a route wait: `reached` tells that one does, `open` lets it go on. */
function gate() {
  let open, arrive;
  const opened = new Promise((resolve) => (open = resolve));
  const reached = new Promise((resolve) => (arrive = resolve));
  return { reached, open, action: async () => void (arrive(), await opened) };
}

test("a directory keeps names, contents, modes and links both ways", async (t) => {
  const { host, local } = await start(t);
  const source = path.join(local, "source");
  const long = `${"long".repeat(50)}/${"name".repeat(60)}`;
  await mkdir(path.join(source, "deep/er/empty"), { recursive: true });
  await mkdir(path.join(source, path.dirname(long)));
  await writeFile(path.join(source, long), "far");
  await writeFile(path.join(source, "secret"), "s", { mode: 0o600 });
  await writeFile(path.join(source, "run"), "#!/bin/sh\n");
  await chmod(path.join(source, "run"), 0o755);
  await writeFile(path.join(source, " -n 'q\"$\n"), "odd");
  await writeFile(Buffer.concat([Buffer.from(`${source}/`), Buffer.from([0xff, 0xfe, 0x41])]), "no UTF-8");
  await symlink("../secret", path.join(source, "deep/link"));
  await link(path.join(source, "run"), path.join(source, "deep/hard"));
  await chmod(path.join(source, "deep/er"), 0o500);
  assert.equal((await host.syncIn(directory(source, remote("a/b")))).filesTransferred, 5);
  assert.equal(await host.bash("stat -c %h a/b/run"), "2\n", "it is one file with two names");
  const target = path.join(local, "target");
  assert.equal((await host.syncOut(directory(remote("a/b"), target))).filesTransferred, 5);
  assert.deepEqual(await tree(target), await tree(source));
  assert.equal((await stat(target)).mode & 0o777, 0o700);
  assert.equal((await stat(path.join(target, "deep/hard"))).ino, (await stat(path.join(target, "run"))).ino);
  await until(async () => (await host.leftovers()) === "", "something was left");
  assert.deepEqual((await readdir(local)).sort(), ["source", "target"]);
});

test("a file keeps its bytes, and has exactly the mode that was asked for", async (t) => {
  const { host, local } = await start(t);
  const bytes = Buffer.from([0, 255, 128, 10, 13]);
  const source = path.join(local, "source");
  await writeFile(source, bytes, { mode: 0o640 });
  assert.deepEqual(await host.syncIn([file(source, remote("new/a\n")), file(source, remote("b"), { mode: 0o604 })]), {
    operationId: "operation", filesTransferred: 2, bytesTransferred: 10,
  });
  assert.equal(await host.bash("stat -c %a:%s new/a$'\\n' b"), "640:5\n604:5\n");
  const mask = process.umask(0o077);
  t.after(() => process.umask(mask));
  await host.syncOut([
    file(remote("b"), path.join(local, "x/y/wide"), { mode: 0o666 }), file(remote("new/a\n"), path.join(local, "usual")),
  ]);
  assert.equal((await stat(path.join(local, "x/y/wide"))).mode & 0o777, 0o666);
  assert.equal((await stat(path.join(local, "usual"))).mode & 0o777, 0o600);
  assert.deepEqual(await readFile(path.join(local, "usual")), bytes);
});

test("dangling, circular and self links are stored, and never followed", async (t) => {
  const { host, local } = await start(t);
  const source = path.join(local, "source");
  await mkdir(source);
  await writeFile(path.join(local, "outside"), "secret");
  for (const [name, target] of [["dangling", "nothing"], ["a", "b"], ["b", "a"], ["self", "self"], ["out", "../outside"], ["abs", local]]) {
    await symlink(target, path.join(source, name));
  }
  assert.equal((await host.syncIn(directory(source, remote("links")))).filesTransferred, 0);
  assert.equal(await host.bash("cd links; for l in a abs b dangling out self; do readlink $l; done"), `b\n${local}\na\nnothing\n../outside\nself\n`);
  await host.bash("rm links/abs links/out");
  await host.syncOut(directory(remote("links"), path.join(local, "target")));
  assert.deepEqual(await tree(path.join(local, "target")), ["a -> b", "b -> a", "dangling -> nothing", "self -> self"]);
});

test("an absolute link stays behind and is told by name, the rest arrives", async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir -p venv/bin; ln -s /usr/bin/python3 venv/bin/python3; ln -s python3 venv/bin/python; echo x > venv/cfg");
  const told = [];
  await host.syncOut(directory(remote("venv"), path.join(local, "venv")), { warn: (...all) => told.push(all) });
  assert.deepEqual(await tree(path.join(local, "venv")), ["bin/ 755", "bin/python -> python3", "cfg 644 x\n"]);
  const reason = "a link to an absolute path";
  assert.deepEqual(told, [[`CreateOS transfer skipped bin/python3: ${reason}.`, { entry: "bin/python3", reason }]]);
});

test("a warning callback that throws undoes nothing", async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir d; for name in a b c; do ln -s / d/$name; done");
  const warnings = [];
  const note = ({ code }) => warnings.push(code);
  process.on("warning", note);
  t.after(() => process.off("warning", note));
  for (const fail of [() => assert.fail("no"), async () => assert.fail("no")]) {
    const told = [];
    await host.syncOut(directory(remote("d"), path.join(local, "d")), { warn: (_, { entry }) => (told.push(entry), fail()) });
    assert.deepEqual(told.toSorted(), ["a", "b", "c"]);
  }
  // They are emitted in the next turn.
  await until(() => warnings.length >= 2, "nothing was reported");
  assert.deepEqual(warnings, ["CREATEOS_WARN_CALLBACK", "CREATEOS_WARN_CALLBACK"]);
});

test("a directory of the host's is sent without what no archive can carry", async (t) => {
  const { host, local } = await start(t);
  const source = path.join(local, "source");
  await mkdir(source);
  await writeFile(path.join(source, "file"), "f");
  execFileSync("mkfifo", [path.join(source, "fifo")]);
  const server = net.createServer().listen(path.join(source, "socket"));
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const told = [];
  assert.equal((await host.syncIn(directory(source, remote("d")), { warn: (_, { entry }) => told.push(entry) })).filesTransferred, 1);
  assert.deepEqual(told, ["fifo", "socket"]);
  assert.equal(await host.bash("ls d"), "file\n");
  const fifo = await failure(host.syncIn(file(path.join(source, "fifo"), remote("f"))));
  assert.equal(fifo.message, "CreateOS transfer failed on the host: the source is no regular file.");
});

test("a directory of the sandbox's with a FIFO is refused, one with a socket is not", async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir d; echo 1 > d/a; mkfifo d/pipe; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => q(d/socket), Listen => 1)'");
  const error = await failure(host.syncOut(directory(remote("d"), path.join(local, "d"))));
  assert.equal(error.message, UNSAFE);
  assert.equal(error.details.entry, "./pipe");
  assert.deepEqual(await readdir(local), []);
  await host.bash("rm d/pipe");
  await host.syncOut(directory(remote("d"), path.join(local, "d")));
  assert.deepEqual(await tree(path.join(local, "d")), ["a 644 1\n"]);
  await until(async () => (await host.leftovers()) === "", "something was left");
});

test("what grows, shrinks or vanishes while it is sent has a clear end", async (t) => {
  const { host, faults, local } = await start(t);
  const source = path.join(local, "source");
  await mkdir(path.join(source, "z/gone"), { recursive: true });
  const large = path.join(source, "large");
  // More than fits between the reader and the wire, so that the file is still being read when it changes.
  const SIZE = 32 * 1024 * 1024;
  await truncateNew(large, SIZE);
  await writeFile(path.join(source, "z/also"), "");
  const send = async (change) => {
    const { reached, open, action } = gate();
    faults.upload = action;
    const sent = host.syncIn(directory(source, remote("d"))).then((moved) => ({ moved }), (error) => ({ error }));
    await reached;
    await change();
    open();
    return sent;
  };
  const { moved } = await send(async () => {
    await appendFile(large, "more");
    await rm(path.join(source, "z"), { recursive: true });
  });
  assert.equal(moved.filesTransferred, 1);
  assert.equal(await host.bash("stat -c %s d/large; ls d"), `${SIZE}\nlarge\n`);
  await host.bash("rm -r d");
  const { error } = await send(() => truncate(large, 1));
  assert.equal(error.message, "CreateOS transfer failed on the host: a file became shorter while it was read.");
  assert.equal(error.details.entry, "large");
  assert.equal(await host.bash("ls"), "");
  await until(async () => (await host.leftovers()) === "", "something was left");
});

async function truncateNew(name, size) {
  const handle = await open(name, "w");
  await handle.truncate(size);
  await handle.close();
}

test("files that change while the sandbox archives them do not fail the sync", async (t) => {
  const { host, local } = await start(t);
  const writing = failure(host.bash("mkdir -p d; truncate -s 64M d/big; echo 1 > d/log; touch ready; while :; do echo more >> d/big; done"));
  while ((await host.bash("test -e ready && echo yes || true")) === "");
  assert.equal((await host.syncOut(directory(remote("d"), path.join(local, "d")))).filesTransferred, 2);
  await host.provider.destroyLease(host.named());
  await writing;
});

test("what may not be read, or is not there, fails the sync by name and leaves nothing", async (t) => {
  const { host, local } = await start(t);
  const missing = await failure(host.syncIn(directory(path.join(local, "none"), remote("d"))));
  assert.equal(missing.message, "CreateOS transfer failed on the host: a file or directory does not exist.");
  assert.ok(!JSON.stringify([missing.message, missing.stack, missing.details]).includes(path.join(local, "none")));
  assert.deepEqual(missing.details, { operation: "file transfer", tries: 0, attempts: [] });
  assert.deepEqual(await readdir(local), []);
  assert.equal(await host.bash("ls"), "");
  await until(async () => (await host.leftovers()) === "", "something was left");
});

test("a command of the sync's own that fails says why in its output", async (t) => {
  const { host, local } = await start(t);
  await writeFile(path.join(local, "a"), "a");
  await host.bash("mkdir d; echo 1 > f; mkfifo pipe; ln -s /etc out; ln -s none dangling; ln -s loop loop");
  const [from, to] = [path.join(local, "a"), path.join(local, "x")];
  for (const [call, mapping, reason] of [
    ["syncOut", file(remote("none"), to), "/none: it does not exist\n"],
    ["syncOut", directory(remote("none"), to), "/none: it does not exist\n"],
    ["syncOut", file(remote("dangling"), to), "/dangling: it does not exist\n"],
    ["syncOut", file(remote("two\nlines"), to), /^\$'.*\/two\\nlines': it does not exist\n$/],
    ["syncOut", file(remote("d"), to), "/d: it is no regular file\n"],
    ["syncOut", file(remote("pipe"), to), "/pipe: it is no regular file\n"],
    ["syncOut", directory(remote("f"), to), "/f: it is no directory\n"],
    ["syncOut", file(remote("out/hostname"), to), "/out/hostname: a link leads out of the workspace\n"],
    ["syncOut", directory(remote("out"), to), "/out: a link leads out of the workspace\n"],
    ["syncIn", file(from, remote("out/x")), "/out/x: a link leads out of the workspace\n"],
    ["syncIn", directory(local, remote("out/x")), "/out/x: a link leads out of the workspace\n"],
    ["syncIn", file(from, remote("loop/x")), /Too many levels of symbolic links/],
    ["syncIn", file(from, remote("d")), /cannot overwrite directory/],
    ["syncIn", directory(local, remote("f")), /cannot overwrite non-directory/],
    ["syncIn", file(from, remote("f/x")), /cannot create directory/],
  ]) {
    const error = await failure(host[call](mapping));
    assert.equal(error.message, COMMAND_FAILED);
    assert.deepEqual(error.details, { operation: "workspace command", tries: 0, attempts: [] });
    if (typeof reason === "string") assert.equal(error.output.stderr, `${WORKSPACE}${reason}`);
    else assert.match(error.output.stderr, reason);
  }
  const command = { command: "touch x", cwd: remote("out") };
  assert.equal((await failure(host.syncIn([], { commands: [command] }))).output.stderr, `${remote("out")}: a link leads out of the workspace\n`);
  assert.deepEqual(await readdir(local), ["a"]);
  assert.equal(await host.bash("ls"), "d\ndangling\nf\nloop\nout\npipe\n");
  await until(async () => (await host.leftovers()) === "", "something was left");
});

test("an unreadable file fails the sync by its name", { skip: !root && "this needs to become another user" }, async (t) => {
  // Apart, since all of this process becomes another user for a moment.
  const { url, key } = await startProgram(t);
  const host = new Host({ url, key }, {}, { pacing: false });
  await host.acquire();
  const local = await temporary(t);
  const source = path.join(local, "source");
  await mkdir(source);
  await writeFile(path.join(source, "readable"), "r");
  await writeFile(path.join(source, "secret"), "s", { mode: 0o600 });
  await chmod(local, 0o755);
  process.seteuid(65_534);
  let error;
  try {
    error = await failure(host.syncIn(directory(source, remote("d"))));
  } finally {
    process.seteuid(0);
  }
  assert.equal(error.message, "CreateOS transfer failed on the host: a file may not be read or written.");
  assert.equal(error.details.entry, "secret");
  await until(async () => (await host.leftovers()) === "", "something was left");
});

test("a full disk on either side leaves no part of a target", { skip: !root && "this needs to mount a file system" }, async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir d; head -c 4M /dev/urandom > d/large; echo 1 > d/a");
  const small = path.join(local, "small");
  await mounted(small, "size=1m", async () => {
    await writeFile(path.join(small, "kept"), "old");
    for (const mapping of [directory(remote("d"), path.join(small, "d")), directory(remote("d"), small), file(remote("d/large"), path.join(small, "kept"))]) {
      assert.equal((await failure(host.syncOut(mapping))).message, "CreateOS transfer failed on the host: no space is left.");
      assert.deepEqual(await tree(small), ["kept 644 old"]);
    }
  });
  await writeFile(path.join(local, "large"), Buffer.alloc(4 * 1024 * 1024, 1));
  await host.bash("mkdir small && mount -t tmpfs -o size=1m tmpfs small && echo old > small/kept");
  for (const mapping of [file(path.join(local, "large"), remote("small/kept")), directory(local, remote("small/d"), { exclude: ["small"] })]) {
    assert.equal((await failure(host.syncIn(mapping))).message, COMMAND_FAILED);
    assert.equal(await host.bash("cat small/*"), "old\n");
    await until(async () => (await host.leftovers()) === "", "something was left");
  }
  await host.bash("umount small");
});

test("a target on a file system of its own is reached all the same", { skip: !root && "this needs to mount a file system" }, async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir -p d/e; echo 1 > d/e/a");
  const target = path.join(local, "target");
  await mounted(target, "size=1m", async () => {
    await host.syncOut(directory(remote("d"), target));
    assert.deepEqual(await tree(target), ["e/ 755", "e/a 644 1\n"]);
  });
});

for (const how of ["reset", "end"]) {
  test(`a download that is cut by ${how === "end" ? "a clean end" : "a reset"} replaces nothing`, async (t) => {
    const { host, faults, local } = await start(t);
    await host.bash("mkdir d; head -c 100000 /dev/zero > d/a; echo new > d/kept");
    await mkdir(path.join(local, "d"));
    await writeFile(path.join(local, "d/kept"), "old");
    for (const cutAfter of [0, 512, 10_240]) {
      faults.download = () => ({ cutAfter, how });
      await failure(host.syncOut(file(remote("d/a"), path.join(local, "d/kept"))));
      const error = await failure(host.syncOut(directory(remote("d"), path.join(local, "d"))));
      assert.ok(["CreateOS connection failed.", UNSAFE].includes(error.message), error.message);
      assert.deepEqual(await tree(local), ["d/ 755", "d/kept 644 old"]);
    }
    await until(async () => (await host.leftovers()) === "", "something was left");
  });
}

test("until it is whole, what comes is in a directory that nobody else can enter", async (t) => {
  const { host, faults, local } = await start(t);
  await host.bash("mkdir d; echo 1 > d/a");
  for (const mapping of [file(remote("d/a"), path.join(local, "target"), { mode: 0o644 }), directory(remote("d"), path.join(local, "target"), { mode: 0o755 })]) {
    const { reached, open, action } = gate();
    faults.download = action;
    const moved = host.syncOut(mapping);
    await reached;
    const names = await readdir(local);
    assert.ok(!names.includes("target"));
    for (const name of names) assert.equal((await stat(path.join(local, name))).mode & 0o777, 0o700);
    open();
    await moved;
    assert.deepEqual(await readdir(local), ["target"]);
    assert.equal((await stat(path.join(local, "target"))).mode & 0o777, mapping.mode);
    await rm(path.join(local, "target"), { recursive: true });
  }
});

test("a directory that exists gets the entries, and keeps what is not among them", async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir -p d/both; echo new > d/both/a; echo new > d/top; ln -s top d/was-file");
  const target = path.join(local, "d");
  await mkdir(path.join(target, "both"), { recursive: true });
  await writeFile(path.join(target, "both/a"), "old");
  await writeFile(path.join(target, "both/own"), "mine");
  await writeFile(path.join(target, "was-file"), "old");
  await host.syncOut(directory(remote("d"), target, { mode: 0o711 }));
  assert.deepEqual(await tree(target), ["both/ 755", "both/a 644 new\n", "both/own 644 mine", "top 644 new\n", "was-file -> top"]);
  assert.equal((await stat(target)).mode & 0o777, 0o711);
  await host.syncIn(directory(target, remote("d"), { exclude: ["a"] }));
  assert.equal(await host.bash("cat d/both/own d/both/a"), "minenew\n");
});

test("nothing is written through a link of the host's, or over another kind, and then nothing at all", async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir -p d/sub; echo 1 > d/sub/a; echo 1 > d/a");
  const [target, elsewhere] = [path.join(local, "d"), path.join(local, "elsewhere")];
  await mkdir(target);
  await mkdir(elsewhere);
  const sync = () => failure(host.syncOut(directory(remote("d"), target)));
  await symlink(elsewhere, path.join(target, "sub"));
  assert.equal((await sync()).message, "CreateOS archive destination cannot be a symlink.");
  await rm(path.join(target, "sub"));
  for (const make of [() => writeFile(path.join(target, "sub"), ""), () => mkdir(path.join(target, "a"))]) {
    await make();
    assert.equal((await sync()).message, "CreateOS transfer failed on the host: a file or directory is in the way of another kind.");
    assert.equal((await readdir(target)).length, 1);
    await rm(path.join(target, (await readdir(target))[0]), { recursive: true });
  }
  await rm(target, { recursive: true });
  await symlink(elsewhere, target);
  assert.equal((await sync()).message, "CreateOS archive destination cannot be a symlink.");
  assert.deepEqual(await readdir(elsewhere), []);
  assert.ok((await lstat(target)).isSymbolicLink());
});

test("a path that leads out of the workspace in the sandbox is refused there", async (t) => {
  const { host, local } = await start(t);
  await writeFile(path.join(local, "a"), "evil");
  await host.bash("mkdir /tmp/outside; echo secret > /tmp/outside/s; ln -s /tmp/outside out; ln -s /tmp/outside/s file; ln -s sub in; mkdir sub");
  for (const mapping of [file(path.join(local, "a"), remote("out/x")), file(path.join(local, "a"), remote("file")), directory(local, remote("out")), directory(local, remote("out/new"))]) {
    assert.equal((await failure(host.syncIn(mapping))).message, COMMAND_FAILED);
  }
  for (const mapping of [file(remote("out/s"), path.join(local, "b")), file(remote("file"), path.join(local, "b")), directory(remote("out"), path.join(local, "b"))]) {
    assert.equal((await failure(host.syncOut(mapping))).message, COMMAND_FAILED);
  }
  assert.equal(await host.bash("ls /tmp/outside; cat /tmp/outside/s"), "s\nsecret\n");
  await host.syncIn(file(path.join(local, "a"), remote("in/a")));
  assert.equal(await host.bash("cat sub/a"), "evil", "a link within the workspace is fine");
  assert.equal((await failure(host.syncIn(file(path.join(local, "a"), remote("sub"))))).message, COMMAND_FAILED, "a directory is no place for a file");
  assert.deepEqual(await readdir(local), ["a"]);
});

test("a directory whose name looks like an escape is the one that is meant, both ways", async (t) => {
  const { host, local } = await start(t);
  await mkdir(path.join(local, "from"));
  await writeFile(path.join(local, "from", "in"), "inner");
  const names = [String.raw`\056\056/tmp/outside`, String.raw`new\n/\t\\`, String.raw`p\q`, String.raw`end\ `.trim()];
  await host.bash(String.raw`mkdir -p /tmp/outside '\056\056/tmp/outside' 'p\q'; ln -s '\056\056/tmp/outside' safe`);
  for (const [i, name] of [...names, "safe"].entries()) {
    await host.syncIn(directory(path.join(local, "from"), remote(name)));
    await host.syncOut(directory(remote(name), path.join(local, `${i}`)));
    assert.deepEqual(await readdir(path.join(local, `${i}`)), ["in"], name);
  }
  assert.equal(await host.bash("ls -A /tmp/outside"), "");
});

test("a batch with one bad part moves nothing", async (t) => {
  const { host, local } = await start(t);
  const source = path.join(local, "a");
  await writeFile(source, "");
  const before = host.emulator.requests.length;
  const good = file(source, remote("a"));
  const follow = "CreateOS does not support followSymlinks for host directory uploads; stage files inside the source directory and omit this option.";
  for (const [mapping, message] of [
    [file("relative", remote("a")), "CreateOS transfer requires an absolute host path."],
    [file(source, "relative"), "CreateOS transfer requires a confined absolute sandbox path."],
    [file(source, `${WORKSPACE}/../x`), "CreateOS transfer requires a confined absolute sandbox path."],
    [file(source, "/etc/passwd"), "CreateOS transfer path escapes the workspace."],
    [file(source, `${WORKSPACE}2/a`), "CreateOS transfer path escapes the workspace."],
    [{ ...good, kind: "link" }, "Unsupported CreateOS transfer kind."],
    [{ ...good, kind: undefined }, "Unsupported CreateOS transfer kind."],
    [{ ...good, mode: 0o1000 }, "Invalid CreateOS file mode."],
    [{ ...good, mode: 1.5 }, "Invalid CreateOS file mode."],
    [{ ...good, mode: "600" }, "Invalid CreateOS file mode."],
    [directory(local, remote("d"), { followSymlinks: true }), follow],
    [{ ...good, sourcePath: 5 }, "Invalid CreateOS command parameters."],
    [directory(local, remote("d"), { exclude: "x" }), "Invalid CreateOS command parameters."],
  ]) {
    assert.equal((await failure(host.syncIn([good, mapping]))).message, message);
  }
  for (const [command, message] of [
    [{ command: "true", cwd: "/etc" }, "CreateOS transfer path escapes the workspace."],
    [{ command: "true", cwd: "x" }, "CreateOS transfer requires a confined absolute sandbox path."],
    [{ command: "true", timeoutMs: 0 }, "Invalid CreateOS transfer timeout."],
    [{ command: "true", timeoutMs: "5" }, "Invalid CreateOS transfer timeout."],
    [{ command: "a\0" }, "Sandbox command values cannot contain NUL."],
  ]) {
    assert.equal((await failure(host.syncIn(good, { commands: [command] }))).message, message);
  }
  assert.equal((await failure(host.syncOut(file(remote("a"), source), { commands: [{ command: "true" }] }))).message,
    "Outbound CreateOS transfers cannot run post-upload commands.");
  const foreign = { ...host.lease, metadata: { ...host.lease.metadata, companyId: "other" } };
  assert.equal((await failure(host.provider.syncIn({ ...host.base, lease: foreign, operations: [] }))).message,
    "CreateOS execution requires a lease from this environment.");
  assert.equal(host.emulator.requests.length, before);
});

test("what is excluded is the same in both directions", async (t) => {
  const { host, local } = await start(t);
  const source = path.join(local, "source");
  const names = ["node_modules/x", "a/node_modules/y", "a/keep", "x.log", ".hidden.log", "a/b.log/c", "a/b.txt", "a1/f", "top", "sub/top", "q/c", "é/f"];
  for (const name of names) {
    await mkdir(path.dirname(path.join(source, name)), { recursive: true });
    await writeFile(path.join(source, name), name);
  }
  for (const [i, exclude] of [
    ["node_modules"], ["*.log"], ["/top"], ["a/**"], ["a?"], ["[!aq]"], ["**/top", "q/"], ["{a,q}"], ["a*b.txt"], ["a*"], ["?"], ["*"], ["\\*", ""],
  ].entries()) {
    await host.syncIn(directory(source, remote(`in${i}`), { exclude }));
    await host.syncIn(directory(source, remote(`all${i}`)));
    await host.syncOut([
      directory(remote(`in${i}`), path.join(local, `in${i}`)), directory(remote(`all${i}`), path.join(local, `out${i}`), { exclude }),
    ]);
    assert.deepEqual(await tree(path.join(local, `out${i}`)), await tree(path.join(local, `in${i}`)), exclude.join(" "));
  }
  assert.deepEqual(await tree(path.join(local, "in11")), []);
});

test("links are followed on their way out if that is asked for", async (t) => {
  const { host, local } = await start(t);
  await host.bash("mkdir d; echo 1 > a; ln -s ../a d/l; ln -s /etc/hostname d/abs");
  await host.syncOut(directory(remote("d"), path.join(local, "d"), { followSymlinks: true }));
  assert.deepEqual((await tree(path.join(local, "d"))).map((line) => line.split(" ")[0]), ["abs", "l"]);
});

test("commands run as they are, in order, where they are told to, until one fails", async (t) => {
  const { host, local } = await start(t);
  await writeFile(path.join(local, "a"), "a");
  const commands = [
    { command: "printf '%s\\n' \"$PWD\" 'it''s' | tee -a log" }, { command: "pwd; echo oops >&2; exit 3", cwd: remote("new") }, { command: "touch never" },
  ];
  const error = await failure(host.syncIn(file(path.join(local, "a"), remote("new/a")), { commands }));
  assert.equal(error.message, COMMAND_FAILED);
  assert.deepEqual([error.output.stdout, error.output.stderr], [`${remote("new")}\n`, "oops\n"]);
  assert.equal(await host.bash("cat log; ls"), `${WORKSPACE}\nits\nlog\nnew\n`);
  const slow = await failure(host.syncIn([], { commands: [{ command: "sleep 1000", timeoutMs: 200 }, { command: "touch never" }] }));
  assert.equal(slow.message, COMMAND_FAILED);
  await host.bash("ln -s /tmp out");
  assert.equal((await failure(host.syncIn([], { commands: [{ command: "touch x", cwd: remote("out") }] }))).message, COMMAND_FAILED);
  await until(async () => (await host.leftovers()) === "", "something was left");
});

test("a release cancels a sync and waits for it, and a closing lease refuses one", async (t) => {
  const { host, faults, local } = await start(t, { config: { reuseLease: true } });
  await truncateNew(path.join(local, "a"), 32 * 1024 * 1024);
  await host.bash("mkdir d; truncate -s 32M d/a");
  for (const [route, sync] of [
    ["upload", () => host.syncIn(directory(local, remote("in")))], ["upload", () => host.syncIn(file(path.join(local, "a"), remote("in")))],
    ["download", () => host.syncOut(directory(remote("d"), path.join(local, "out")))], ["download", () => host.syncOut(file(remote("d/a"), path.join(local, "out")))],
  ]) {
    const { reached, open, action } = gate();
    faults[route] = action;
    const cancelled = failure(sync());
    await reached;
    assert.equal(await host.bash("echo beside"), "beside\n", "a command runs beside it");
    let over = false;
    const release = host.provider.releaseLease(host.named()).finally(() => (over = true));
    assert.equal((await failure(host.syncIn(file(path.join(local, "a"), remote("b"))))).message, "CreateOS lease is closing or requires cleanup.");
    const started = performance.now();
    assert.equal((await cancelled).message, "CreateOS command was cancelled.");
    assert.ok(performance.now() - started < 30_000, "not when the kernel gives up on the connection, after 60 s");
    assert.ok(!over);
    assert.equal((await release).state, "stopped");
    open();
    delete faults[route];
    await host.provider.resumeLease(host.named());
    assert.deepEqual(await readdir(local), ["a"]);
    assert.equal(await host.bash("ls"), "d\n");
  }
});

test("a sync whose command may still run leaves the lease unconfirmed", async (t) => {
  const { host, faults, local } = await start(t, { config: { reuseLease: true } });
  await writeFile(path.join(local, "a"), "a");
  faults.create = () => ({ lost: true });
  assert.ok((await failure(host.syncIn(file(path.join(local, "a"), remote("a"))))) instanceof CreateosCleanupError);
  assert.equal((await failure(host.syncIn(file(path.join(local, "a"), remote("a"))))).message, "CreateOS lease is closing or requires cleanup.");
  assert.equal((await host.provider.destroyLease(host.named())).state, "destroyed");
});

test("a signal and the settings' timeout end a sync", async (t) => {
  const { host, faults, local } = await start(t, { config: { timeoutMs: 3_000 } });
  await writeFile(path.join(local, "a"), "a");
  const { reached, action } = gate();
  faults.upload = action;
  const controller = new AbortController();
  const aborted = failure(host.syncIn(file(path.join(local, "a"), remote("a")), { signal: controller.signal }));
  await reached;
  controller.abort();
  assert.equal((await aborted).message, "CreateOS command was cancelled.");
  faults.upload = () => ({ hang: true });
  const late = await failure(host.syncIn(file(path.join(local, "a"), remote("a"))));
  assert.equal(late.message, "CreateOS connection failed.");
  assert.deepEqual(late.details.attempts, [{ failure: "timeout" }]);
});

/** How much memory this process has taken at most since it was last asked, in MiB. */
async function peak() {
  const status = await readFile("/proc/self/status", "utf8");
  await writeFile("/proc/self/clear_refs", "5");
  return /VmHWM:\s+(\d+)/.exec(status)[1] / 1024;
}

const LARGE_MIB = SOAK ? 2048 : 256;

test(`${LARGE_MIB} MiB of files travel both ways in a few MiB of memory`, { skip: process.platform !== "linux" && "memory is measured by /proc" }, async (t) => {
  const { url, key } = await startProgram(t);
  const host = new Host({ url, key }, { timeoutMs: 3_600_000 }, { pacing: false });
  await host.acquire();
  const local = await temporary(t);
  const source = path.join(local, "source");
  await mkdir(source);
  for (let i = 0; i < 8; i++) await truncateNew(path.join(source, String(i)), LARGE_MIB * 128 * 1024);
  await peak();
  const before = await peak();
  await host.syncIn(directory(source, remote("d")));
  const sending = await peak() - before;
  const moved = await host.syncOut(directory(remote("d"), path.join(local, "target")));
  const receiving = await peak() - before;
  t.diagnostic(`memory grew by ${sending.toFixed(1)} MiB sending, by ${receiving.toFixed(1)} MiB receiving`);
  assert.ok(moved.bytesTransferred >= LARGE_MIB * 1024 * 1024);
  assert.ok(sending < 64 && receiving < 64, `${sending} and ${receiving} MiB`);
  await host.provider.destroyLease(host.named());
});

test("an archive that is not safe is refused by the name of its entry, wherever in it that is", async (t) => {
  const { host, faults, local } = await start(t);
  await host.bash("mkdir d");
  for (const [entries, entry] of [
    [[{ path: "a/up", link: "../.." }], "a/up"],
    [[{ path: "p/q/", dir: true }, { path: "p/q/up", link: "../.." }, { path: "out", link: "p/q/up/.." }], "out"],
    [[{ path: "l", link: "d" }, { path: "l/f", text: "x" }], "l/f"],
    [[{ path: "hard", hardlink: "/etc/passwd" }], "hard"],
    [[{ path: "dev", type: "3" }], "dev"],
    [[{ path: "large", text: "", size: 10 * 1024 ** 3 }, { path: "more" }], "large"],
  ]) {
    faults.download = () => ({ status: 200, body: makeTar([{ path: "safe", text: "s" }, ...entries]) });
    const error = await failure(host.syncOut(directory(remote("d"), path.join(local, "d"))));
    assert.equal(error.message, UNSAFE);
    assert.equal(error.details.entry, entry);
    assert.deepEqual(await readdir(local), []);
  }
});
