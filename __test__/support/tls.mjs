// Certificates for loopback and the authority that issued them, all made for these tests alone (`openssl ca`, until 2120; the
// authority's key is gone); and trusting it.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const file = (name) => fileURLToPath(new URL(`./tls/${name}`, import.meta.url));
const server = (name) => ({ cert: readFileSync(file(name)), key: readFileSync(file("server.key")) });

export const AUTHORITY = file("ca.pem");
/** Of `localhost`, both loopback addresses, and `api.test`. */
export const TLS = server("server.pem");
/** Of the same names, until 2021. */
export const EXPIRED = server("expired.pem");
/** Of `other.test`. */
export const ELSEWHERE = server("other.pem");

/** Clients and providers that are made from now on trust the tests' authority. */
export function trustAuthority() {
  process.env.NODE_EXTRA_CA_CERTS = AUTHORITY;
}
