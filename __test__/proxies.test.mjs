// Proxies: they are used where Node.js itself would use them, and never for this machine. In programs of their own, since
// the environment is what this is about.
import assert from "node:assert/strict";
import net from "node:net";
import { describe, test } from "node:test";
import { startEndpoint } from "./support/endpoint.mjs";
import { runProgram } from "./support/program.mjs";
import { AUTHORITY, TLS } from "./support/tls.mjs";

const [MAJOR, MINOR] = process.versions.node.split(".").map(Number);
/** Whether this Node.js knows NODE_USE_ENV_PROXY; others ignore it. */
const HEEDED = MAJOR >= 24 || (MAJOR === 22 && MINOR >= 21);

const NAMES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
const VARIABLES = [...NAMES.flatMap((name) => [name, name.toLowerCase()]), "NODE_USE_ENV_PROXY"];
/** An environment that says nothing of proxies, and trusts the tests' authority. */
const CLEAN = { ...Object.fromEntries(VARIABLES.map((name) => [name, undefined])), NODE_EXTRA_CA_CERTS: AUTHORITY };

/** Node.js 22 warns of its own proxy agent, which it calls experimental; nobody else has anything to say. */
const flags = ["--disable-warning=UNDICI-EHPA"];

/** A proxy that makes a tunnel to `target` whoever is asked for, and remembers what it was told. */
async function startProxy(t, target) {
  const proxy = { connections: 0, said: [] };
  const sockets = new Set();
  const keep = (socket) => sockets.add(socket.on("error", () => {}));
  const server = net.createServer((socket) => {
    proxy.connections++;
    keep(socket);
    let head = "";
    socket.on("data", function listen(bytes) {
      head += bytes.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      socket.off("data", listen);
      proxy.said.push(head);
      const tunnel = net.connect(target.server.address().port, "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
        socket.pipe(tunnel).pipe(socket);
      });
      keep(tunnel);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  return proxy;
}

/**
 * Runs a command with standard input in each of these environments, which one program has one after the other; gives its
 * exit code, or why there is none.
 */
async function outcomes(endpoint, environments) {
  const { code, stdout, stderr } = await runProgram(`
    const [clean, environments] = JSON.parse(process.env.TEST_ENVIRONMENTS);
    const told = [];
    for (const env of environments) {
      for (const name of clean) delete process.env[name];
      Object.assign(process.env, env);
      told.push(await environment.run({ stdin: "input" }).then(({ exitCode }) => exitCode, ({ message, details }) => [message, ...details.attempts.map(({ failure }) => failure)]));
    }
    process.stdout.write(JSON.stringify(told));`, endpoint, { flags, env: { ...CLEAN, TEST_ENVIRONMENTS: JSON.stringify([VARIABLES, environments]) } });
  assert.deepEqual([code, stderr], [0, ""]);
  return JSON.parse(stdout);
}

/** The same of one environment, which the program has from its start. */
async function outcome(endpoint, env) {
  const { code, stdout, stderr } = await runProgram(`
    const told = await run({ stdin: "input" }).then(({ exitCode }) => exitCode, ({ message, details }) => [message, ...details.attempts.map(({ failure }) => failure)]);
    process.stdout.write(JSON.stringify(told));`, endpoint, { flags, env: { ...CLEAN, ...env } });
  assert.deepEqual([code, stderr], [0, ""]);
  return JSON.parse(stdout);
}

const unconnected = (failure) => ["CreateOS connection failed.", failure];
/** A port where nothing listens. */
const DEAD = "http://127.0.0.1:1";
/** Of an endpoint that no name server knows: a part of a name has at most 63 characters. */
const unknown = ({ key }) => ({ url: `https://${"a".repeat(64)}.test`, key });
const behind = ({ key }) => ({ url: "https://api.test", key });

describe("loopback never takes a proxy", () => {
  for (const [tls, host] of [[undefined, "127.0.0.1"], [undefined, "localhost"], [TLS, "127.0.0.1"], [TLS, "localhost"]]) {
    for (const more of [{}, { NODE_USE_ENV_PROXY: "1" }]) {
      test(`${tls ? "https" : "http"}://${host} ${more.NODE_USE_ENV_PROXY ? "with" : "without"} NODE_USE_ENV_PROXY, be it dead or hostile`, async (t) => {
        const endpoint = await startEndpoint({}, { t, tls });
        const hostile = await startProxy(t, endpoint);
        const at = { url: endpoint.url.replace("127.0.0.1", host), key: endpoint.key };
        const all = (proxy, spelled) => Object.fromEntries(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map((name) => [spelled(name), proxy]));
        const environments = [DEAD, hostile.url, `socks5://${new URL(hostile.url).host}`].flatMap((proxy) =>
          [(name) => name, (name) => name.toLowerCase()].map((spelled) => ({ ...all(proxy, spelled), ...more })));
        assert.deepEqual(await outcomes(at, environments), environments.map(() => 0));
        assert.equal(hostile.connections, 0);
      });
    }
  }
});

describe("an endpoint that is elsewhere", () => {
  for (const name of ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]) {
    test(`is reached through the tunnel that ${name} names, ${HEEDED ? "with NODE_USE_ENV_PROXY=1" : "by no Node.js that does not know NODE_USE_ENV_PROXY"}`, async (t) => {
      const endpoint = await startEndpoint({}, { t, tls: TLS });
      const proxy = await startProxy(t, endpoint);
      const env = { [name]: proxy.url, NODE_USE_ENV_PROXY: "1" };
      if (HEEDED) {
        assert.equal(await outcome(behind(endpoint), env), 0);
        assert.ok(proxy.said.length > 0);
        for (const said of proxy.said) {
          assert.match(said, /^CONNECT api\.test:443 HTTP\/1\.1\r\n/);
          assert.ok(!said.includes(endpoint.key), "the key is for the endpoint");
        }
        assert.ok(endpoint.requests.every(({ headers }) => headers["x-api-key"] === endpoint.key));
      } else {
        assert.deepEqual(await outcome(unknown(endpoint), env), unconnected("dns"));
        assert.equal(proxy.connections, 0);
      }
    });
  }

  test("is reached without one unless NODE_USE_ENV_PROXY is 1, and never by ALL_PROXY", async (t) => {
    const endpoint = await startEndpoint({}, { t, tls: TLS });
    const proxy = await startProxy(t, endpoint);
    const all = { HTTPS_PROXY: proxy.url, https_proxy: proxy.url, HTTP_PROXY: proxy.url, http_proxy: proxy.url };
    const environments = [all, { ...all, NODE_USE_ENV_PROXY: "0" }, { ALL_PROXY: proxy.url, all_proxy: proxy.url, NODE_USE_ENV_PROXY: "1" }];
    assert.deepEqual(await outcomes(unknown(endpoint), environments), environments.map(() => unconnected("dns")));
    assert.equal(proxy.connections, 0);
  });

  for (const name of ["NO_PROXY", "no_proxy"]) {
    test(`is reached without one where ${name} says so`, async (t) => {
      const endpoint = await startEndpoint({}, { t, tls: TLS });
      const proxy = await startProxy(t, endpoint);
      const direct = unknown(endpoint);
      const proxied = { HTTPS_PROXY: proxy.url, NODE_USE_ENV_PROXY: "1" };
      const lists = ["*", new URL(direct.url).host, `other.test, ${new URL(direct.url).host}:443`, ".test", "*.test"];
      assert.deepEqual(await outcomes(direct, lists.map((list) => ({ ...proxied, [name]: list }))), lists.map(() => unconnected("dns")));
      assert.equal(proxy.connections, 0);
      if (HEEDED) assert.equal(await outcome(behind(endpoint), { ...proxied, [name]: "other.test,test,192.0.2.1" }), 0);
    });
  }

  test("is not reached around a proxy that is dead or refuses", { skip: !HEEDED && "this Node.js does not know NODE_USE_ENV_PROXY" }, async (t) => {
    const refusing = await startEndpoint({ unknown: (exchange) => exchange.fail(407) }, { t });
    for (const HTTPS_PROXY of [DEAD, refusing.url]) {
      assert.deepEqual(await outcome(behind(refusing), { HTTPS_PROXY, NODE_USE_ENV_PROXY: "1" }), unconnected("refused"));
    }
    assert.ok(refusing.requests.every(({ method, headers }) => method === "CONNECT" && !("x-api-key" in headers)));
  });
});
