// A certificate for loopback and the authority that issued it, both made for these tests alone; and trusting it.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const file = (name) => fileURLToPath(new URL(`./tls/${name}`, import.meta.url));

export const AUTHORITY = file("ca.pem");
export const TLS = { cert: readFileSync(file("server.pem")), key: readFileSync(file("server.key")) };

/** Clients and providers that are made from now on trust the tests' authority. */
export function trustAuthority() {
  process.env.NODE_EXTRA_CA_CERTS = AUTHORITY;
}
