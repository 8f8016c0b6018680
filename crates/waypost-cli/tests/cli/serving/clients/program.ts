// Works with a server through a client that openapi-typescript generated from its description.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.ts";

type Issue = components["schemas"]["Issue"];
type Problem = components["schemas"]["Problem"];

const [url, token] = process.argv.slice(2);
if (url === undefined || token === undefined) {
  throw new Error("usage: program.ts URL TOKEN");
}
const client = createClient<paths>({
  baseUrl: url,
  headers: { Authorization: `Bearer ${token}`, "Waypost-Agent": "typescript" },
});

function check(isTrue: boolean, what: string): asserts isTrue {
  if (!isTrue) {
    throw new Error(what);
  }
}

function answer<T>(reply: { data?: T; error?: Problem }): T {
  if (reply.error !== undefined || reply.data === undefined) {
    throw new Error(`${reply.error?.code}: ${reply.error?.detail}`);
  }
  return reply.data;
}

const ids: string[] = [];
for (const title of ["one", "two", "three"]) {
  const added: Issue = answer(await client.POST("/api/v1/issues", { body: { title, priority: 1 } })).data;
  check(added.title === title && added.priority === 1, `added ${JSON.stringify(added)}`);
  ids.push(added.id);
}

const walked: string[] = [];
let after: string | undefined;
do {
  const query = { limit: 2, sort: "created", ...(after === undefined ? {} : { after }) };
  const page = answer(await client.GET("/api/v1/issues", { params: { query } }));
  walked.push(...page.data.map((issue: Issue) => issue.id));
  after = page.next ?? undefined;
} while (after !== undefined);
check([...walked].sort().join() === [...ids].sort().join(), `walked ${walked.join()}, added ${ids.join()}`);

const [first] = ids;
check(first !== undefined, "no issue");
const path = { issue: first };
const claimed = answer(await client.POST("/api/v1/issues/{issue}/claim", { params: { path } })).data;
check(claimed.issue.assignee === "typescript" && claimed.lease.epoch === 1, JSON.stringify(claimed));
const expires = claimed.lease.expires_at;
check(expires !== null && expires !== undefined, "the lease never expires");
check(new Date(expires) > new Date(claimed.lease.granted_at), `expires at ${expires}`);
const changed = answer(await client.PATCH("/api/v1/issues/{issue}", { params: { path }, body: { priority: 0 } })).data;
check(changed.priority === 0, JSON.stringify(changed));
const closed = answer(await client.POST("/api/v1/issues/{issue}/close", { params: { path }, body: { reason: "done" } }));
check(closed.data.status === "closed", JSON.stringify(closed));

const { error, response } = await client.GET("/api/v1/issues/{issue}", { params: { path: { issue: "none" } } });
check(error !== undefined, "no error");
check(response.headers.get("content-type") === "application/problem+json", "not problem details");
check(error.status === 404 && error.code === "not_found" && error.exit === 3, JSON.stringify(error));
check(error.instance === "/api/v1/issues/none" && error.hints.length >= 0, JSON.stringify(error));
console.log("typescript done");
