//! The OpenAPI document, generated from the table of operations.

use std::collections::BTreeSet;

use axum::http::Method;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use waypost::serving::PROBLEM_TYPE;
use waypost_core::Kind;
use waypost_core::op::Effect;

use super::route::{Op, ROOT};

/// Returns the OpenAPI document of these operations.
pub(crate) fn document(ops: &[Op]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for op in ops.iter().filter(|op| op.is_public()) {
        let (rest, name) = (&op.rest, op.about.name);
        let (method, keys) = (rest.method.as_str().to_ascii_lowercase(), rest.keys.as_slice());
        match &rest.named_path {
            None => add(&mut paths, &rest.path, &method, rest_operation(op, name, keys, &mut generator)),
            Some(path) => {
                add(&mut paths, &rest.path, &method, rest_operation(op, name, &[], &mut generator));
                let named = rest_operation(op, &format!("{name}_named"), keys, &mut generator);
                add(&mut paths, path, &method, named);
            }
        }
    }
    let nouns: BTreeSet<&str> = ops.iter().filter(|op| op.is_public()).map(|op| op.rest.noun()).collect();
    let tags: Vec<Value> =
        nouns.into_iter().chain([OPERATIONS_TAG, SERVER_TAG]).map(|name| json!({ "name": name })).collect();
    add(&mut paths, &format!("{ROOT}/op/{{operation}}"), "post", by_name(ops));
    for (path, operation) in other_paths() {
        add(&mut paths, path, "get", operation);
    }
    let ended = json!({ "description": "The session has ended.", "content": content(&plain_answer(&json!({ "type": "object" }))) });
    let logout = json!({
        "operationId": "logout", "summary": "End the session of a browser", "tags": [SERVER_TAG],
        "responses": { "200": ended, "default": errors() },
    });
    add(&mut paths, "/logout", "post", logout);
    let session =
        json!({ "type": "object", "required": ["session"], "properties": { "session": { "type": "string" } } });
    let login = json!({
        "operationId": "login", "security": [], "tags": [SERVER_TAG],
        "summary": "Exchange a single-use code, or the token of the request, for the secret of a session",
        "requestBody": { "required": false, "content": content(&json!({
            "type": "object", "properties": { "code": { "type": "string" } },
        })) },
        "responses": {
            "200": {
                "description": "A bearer token that is valid until the browser logs out, for at most 12 hours.",
                "content": content(&plain_answer(&session)),
            },
            "default": errors(),
        },
    });
    add(&mut paths, "/login", "post", login);
    paths.sort_keys();
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Problem".to_owned(), problem_schema());
    schemas.insert("Answer".to_owned(), answer_schema());
    share_fields(&mut schemas);
    let mut used = Vec::new();
    references(&Value::Object(paths.clone()), &schemas, &mut used);
    schemas.retain(|name, _| used.contains(name) || name == "Problem");
    schemas.sort_keys();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Waypost",
            "version": "1",
            "description": "The operations of a store and its ledgers. Every request needs a bearer token. A write is on disk \
                when the server answers.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The server that sent this document" }],
        "security": [{ "token": [] }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Problem": {
                    "description": "The error, as problem details of RFC 9457.",
                    "content": { PROBLEM_TYPE: { "schema": { "$ref": "#/components/schemas/Problem" } } },
                },
                "Unchanged": { "description": "Not modified since the ETag in If-None-Match." },
            },
            "parameters": { "IdempotencyKey": {
                "name": "Idempotency-Key", "in": "header", "required": false,
                "description": "Makes a write safe to retry: a request with the same key returns the first answer.",
                "schema": { "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-$&-~]+$" },
            } },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    bound(&mut document);
    remove_null_defaults(&mut document);
    document
}

/// The tags of paths that belong to no noun.
const OPERATIONS_TAG: &str = "operations";
const SERVER_TAG: &str = "server";

fn add(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
    let item = paths.entry(path).or_insert_with(|| json!({}));
    item[method] = operation;
}

/// Describes an operation at its REST path.
fn rest_operation(op: &Op, id: &str, keys: &[String], generator: &mut SchemaGenerator) -> Value {
    let rest = &op.rest;
    let mut parameters = Vec::new();
    for key in keys {
        parameters
            .push(json!({ "name": key, "in": "path", "required": true, "schema": path_schema(&op.properties[key]) }));
    }
    let mut operation = operation(op, id, if rest.is_list { Answer::List } else { Answer::One }, generator);
    if rest.has_query() {
        let fields = rest.nested.as_ref().map_or(&op.properties, |(_, fields)| fields);
        for (name, schema) in fields.iter().filter(|(name, _)| !keys.contains(name)) {
            let is_required = op.required.contains(name) && name != "limit";
            let mut schema = without_null(schema.clone());
            if name == "limit" {
                (schema["minimum"], schema["maximum"], schema["default"]) = (json!(1), json!(1000), json!(100));
            }
            let mut parameter = json!({ "name": name, "in": "query", "required": is_required, "schema": schema });
            if schema.get("type") == Some(&json!("array")) {
                (parameter["style"], parameter["explode"]) = (json!("form"), json!(false));
            }
            parameters.push(parameter);
        }
        if rest.method == Method::GET {
            operation["responses"]["304"] = json!({ "$ref": "#/components/responses/Unchanged" });
        }
        parameters.extend(idempotency(op));
    } else {
        let mut required = op.required.clone();
        let mut schema = arguments(op, generator);
        if !keys.is_empty() {
            // An argument that is part of the path is not part of the body.
            let mut properties = resolved(&schema, generator)["properties"].take();
            if let Value::Object(properties) = &mut properties {
                properties.retain(|name, _| !keys.contains(name));
            }
            required.retain(|name| !keys.contains(name));
            schema = json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            });
        }
        operation["requestBody"] = body(&schema, !required.is_empty());
        parameters.extend(idempotency(op));
    }
    operation["parameters"] = Value::Array(parameters);
    operation
}

/// Describes the generic endpoint. Arguments and answers are described at the REST paths.
fn by_name(ops: &[Op]) -> Value {
    let names: Vec<&str> = ops.iter().filter(|op| op.is_public()).map(|op| op.about.name).collect();
    json!({
        "operationId": "operate",
        "summary": "Run an operation by name (its operationId), with all arguments in the body",
        "tags": [OPERATIONS_TAG],
        "parameters": [
            { "name": "operation", "in": "path", "required": true, "schema": { "type": "string", "enum": names } },
            { "$ref": "#/components/parameters/IdempotencyKey" },
        ],
        "requestBody": body(&json!({ "type": "object" }), false),
        "responses": { "200": answer(&json!({ "data": { "type": "object" } })), "default": errors() },
    })
}

/// Describes the arguments of an operation; others are rejected.
fn arguments(op: &Op, generator: &mut SchemaGenerator) -> Value {
    let schema = (op.about.schema)(generator).to_value();
    if let Some(definition) = definition(&schema).and_then(|name| generator.definitions_mut().get_mut(name)) {
        definition["additionalProperties"] = json!(false);
    }
    schema
}

/// Follows a reference.
fn resolved(schema: &Value, generator: &SchemaGenerator) -> Value {
    let found = definition(schema).and_then(|name| generator.definitions().get(name));
    found.unwrap_or(schema).clone()
}

fn definition(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    One,
    List,
}

fn operation(op: &Op, id: &str, form: Answer, generator: &mut SchemaGenerator) -> Value {
    let answered = (op.about.answer_schema)(generator).to_value();
    let mut properties = Map::new();
    match form {
        Answer::One => drop(properties.insert("data".to_owned(), answered)),
        Answer::List => {
            // `data` is the list itself; the other fields stand beside it.
            let fields = resolved(&answered, generator);
            for (name, schema) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let is_list = schema.get("type") == Some(&json!("array"));
                properties.insert(if is_list { "data".to_owned() } else { name.clone() }, schema.clone());
            }
        }
    }
    json!({
        "operationId": id,
        "summary": op.about.summary,
        "tags": [op.rest.noun()],
        "x-effect": if op.about.effect == Effect::Write { "write" } else { "read" },
        "responses": {
            "200": answer(&Value::Object(properties)),
            "default": errors(),
        },
    })
}

/// Describes an answer: the common fields and these.
fn answer(properties: &Value) -> Value {
    let rest = json!({ "type": "object", "properties": properties, "required": ["data"] });
    let schema = json!({ "allOf": [{ "$ref": "#/components/schemas/Answer" }, rest] });
    json!({ "description": "The answer.", "content": content(&schema) })
}

fn answer_schema() -> Value {
    json!({
        "type": "object",
        "required": ["schema", "warnings"],
        "properties": {
            "schema": { "type": "string", "const": "waypost/1" },
            "warnings": { "type": "array", "items": { "type": "string" } },
        },
    })
}

/// Describes an answer with these data.
fn plain_answer(data: &Value) -> Value {
    json!({ "allOf": [{ "$ref": "#/components/schemas/Answer" }, { "type": "object", "properties": { "data": data } }] })
}

fn errors() -> Value {
    json!({ "$ref": "#/components/responses/Problem" })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

/// Deduplicates schemas: one that has all fields of another refers to it and lists only its additional fields.
fn share_fields(schemas: &mut Map<String, Value>) {
    fn fields(schema: &Value) -> Option<&Map<String, Value>> {
        let is_open = schema.get("additionalProperties").is_none() && schema.get("allOf").is_none();
        schema.get("properties").and_then(Value::as_object).filter(|_| is_open)
    }
    let mut names: Vec<String> = schemas.keys().cloned().collect();
    // The largest first, while their parts still list all their fields.
    names.sort_by_key(|name| std::cmp::Reverse(fields(&schemas[name]).map_or(0, Map::len)));
    for name in &names {
        let Some(whole) = fields(&schemas[name]) else { continue };
        let is_part = |part: &&String| {
            let part = fields(&schemas[*part]);
            part.is_some_and(|part| {
                part.len() < whole.len() && part.iter().all(|(key, field)| whole.get(key) == Some(field))
            })
        };
        // Few equal fields may be a coincidence.
        let field_count = |part: &&String| fields(&schemas[*part]).map_or(0, Map::len);
        let Some(part) = names.iter().filter(is_part).max_by_key(field_count).filter(|part| field_count(part) > 4)
        else {
            continue;
        };
        let shared: Vec<String> = fields(&schemas[part]).into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let mut rest = schemas[name].clone();
        if let Some(properties) = rest["properties"].as_object_mut() {
            properties.retain(|key, _| !shared.contains(key));
        }
        rest["allOf"] = json!([{ "$ref": format!("#/components/schemas/{part}") }]);
        schemas[name] = rest;
    }
}

/// Collects the schemas that a value refers to, transitively.
fn references(value: &Value, schemas: &Map<String, Value>, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = definition(value).filter(|name| !found.iter().any(|known| known == name)) {
                found.push(name.to_owned());
                references(&schemas[name], schemas, found);
            }
            fields.values().for_each(|value| references(value, schemas, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, schemas, found)),
        _ => {}
    }
}

fn problem_schema() -> Value {
    let codes: Vec<&str> = Kind::ALL.iter().map(|kind| kind.code()).collect();
    let code = json!({ "type": "string", "enum": codes, "description": "The kind of error, as in the JSON output of commands." });
    let hints = json!({ "type": "array", "items": { "type": "string" }, "description": "What to do next." });
    json!({
        "type": "object",
        "description": "An error, as RFC 9457 describes problems, with the code of the error and hints.",
        "required": ["type", "title", "status", "detail", "instance", "code", "exit", "hints", "schema", "error"],
        "properties": {
            "type": { "type": "string", "format": "uri", "description": "Identifies the kind of error." },
            "title": { "type": "string", "description": "The kind of error in words." },
            "status": { "type": "integer", "description": "The status of the response." },
            "detail": { "type": "string", "description": "What went wrong." },
            "instance": { "type": "string", "description": "The path of the request." },
            "code": code,
            "exit": { "type": "integer", "description": "The exit code of a command with this error." },
            "hints": hints,
            "schema": { "type": "string", "const": "waypost/1" },
            "error": {
                "type": "object",
                "description": "The error as in the JSON output of commands.",
                "required": ["code", "message", "hints"],
                "properties": { "code": code, "message": { "type": "string" }, "hints": hints },
            },
        },
    })
}

fn body(schema: &Value, is_required: bool) -> Value {
    json!({ "required": is_required, "content": content(schema) })
}

/// Describes the header that makes a write safe to retry.
fn idempotency(op: &Op) -> Option<Value> {
    (op.about.effect == Effect::Write).then(|| json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
}

/// Forbids an empty path parameter.
fn path_schema(schema: &Value) -> Value {
    let mut schema = without_null(schema.clone());
    if schema.get("pattern").is_none() {
        schema["minLength"] = json!(1);
    }
    schema
}

/// Removes `null`: a parameter without a value is left out. Removes limits of texts and lists, too: an address has one limit
/// as a whole, which is smaller.
fn without_null(mut schema: Value) -> Value {
    remove_limits(&mut schema);
    if let Some(kinds) = schema.get("type").and_then(Value::as_array) {
        let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        if let [kind] = kinds.as_slice() {
            schema["type"] = kind.clone();
        }
    }
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        let any: Vec<_> = any.iter().filter(|one| one.get("type") != Some(&json!("null"))).cloned().collect();
        if let [one] = any.as_slice() {
            let mut one = one.clone();
            if let (Some(text), Value::Object(fields)) = (schema.get("description"), &mut one) {
                fields.insert("description".to_owned(), text.clone());
            }
            return one;
        }
    }
    if let Value::Object(fields) = &mut schema
        && fields.get("default") == Some(&Value::Null)
    {
        fields.remove("default");
    }
    schema
}

fn remove_limits(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.shift_remove("maxLength");
            fields.shift_remove("maxItems");
            fields.values_mut().for_each(remove_limits);
        }
        Value::Array(parts) => parts.iter_mut().for_each(remove_limits),
        _ => {}
    }
}

/// Adds the maximum of integers.
fn bound(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let maximum = match fields.get("format").and_then(Value::as_str) {
                Some("uint32") => Some(json!(u32::MAX)),
                // Databases store signed integers.
                Some("uint64" | "int64") => Some(json!(i64::MAX)),
                _ => None,
            };
            if let Some(maximum) = maximum {
                fields.entry("maximum").or_insert(maximum);
            }
            fields.values_mut().for_each(bound);
        }
        Value::Array(items) => items.iter_mut().for_each(bound),
        _ => {}
    }
}

/// Removes defaults of null: a field that is left out has none.
fn remove_null_defaults(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("default") == Some(&Value::Null) {
                fields.shift_remove("default");
            }
            fields.values_mut().for_each(remove_null_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_null_defaults),
        _ => {}
    }
}

/// Returns the description of the answer that tells the role of a token.
fn whoami_answer() -> Value {
    let schema = json!({
        "type": "object", "required": ["role", "agent"],
        "properties": { "role": { "type": "string" }, "agent": { "type": ["string", "null"] } },
    });
    json!({ "description": "The role and the agent.", "content": content(&plain_answer(&schema)) })
}

/// Describes the paths that are not operations.
fn other_paths() -> Vec<(&'static str, Value)> {
    let text = |kind: &str| json!({ "description": "The current state.", "content": { kind: { "schema": { "type": "string" } } } });
    let public = |id: &str, summary: &str, answer: Value| {
        json!({
            "operationId": id, "summary": summary, "security": [], "tags": [SERVER_TAG],
            "responses": { "200": answer, "default": errors() },
        })
    };
    let authenticated = |id: &str, summary: &str, parameters: Value, answer: Value| {
        json!({
            "operationId": id, "summary": summary, "parameters": parameters, "tags": [SERVER_TAG],
            "responses": { "200": answer, "default": errors() },
        })
    };
    let number = json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX });
    let since = json!({ "name": "since", "in": "query", "schema": number });
    let filter = |name: &str, text: &str| json!({ "name": name, "in": "query", "description": text, "schema": { "type": "string" } });
    let digits = |name: &str, text: &str| {
        let schema = json!({ "type": "string", "pattern": "^[0-9a-fA-F]{64}$" });
        json!({ "name": name, "in": "query", "required": true, "description": text, "schema": schema })
    };
    vec![
        ("/healthz", public("healthz", "Liveness probe", text("text/plain"))),
        ("/readyz", public("readyz", "Readiness probe: whether the store is writable", text("text/plain"))),
        (
            "/prove",
            json!({
                "operationId": "prove", "security": [], "tags": [SERVER_TAG],
                "summary": "Proof that the server knows a token, for clients that do not send it to other programs",
                "parameters": [digits("nonce", "Random digits"), digits("key", "Code over the nonce by which the server finds the token")],
                "responses": { "200": {
                    "description": "The proof.",
                    "content": content(&plain_answer(&json!({
                        "type": "object", "required": ["proof"], "properties": { "proof": { "type": "string" } },
                    }))),
                }, "default": errors() },
            }),
        ),
        ("/whoami", authenticated("whoami", "Role and agent of the token", json!([]), whoami_answer())),
        ("/metrics", authenticated("metrics", "Metrics in the Prometheus text format", json!([]), text("text/plain"))),
        (
            "/openapi.json",
            authenticated(
                "openapi",
                "OpenAPI document",
                json!([]),
                json!({
                    "description": "This document.", "content": { "application/json": { "schema": { "type": "object" } } },
                }),
            ),
        ),
        (
            "/api/v1/events/stream",
            authenticated(
                "stream_events",
                "Stream events as server-sent events; Last-Event-ID resumes a stream",
                json!([
                    since,
                    filter("kind", "Comma-separated kinds or their prefixes, e.g. task.claimed,workflow"),
                    filter("subject", "Id of the subject"),
                    filter("worktree_id", "Id of the worktree in which the event occurred"),
                ]),
                text("text/event-stream"),
            ),
        ),
        (
            "/api/v1/jobs/{job}/log/stream",
            authenticated(
                "stream_log",
                "Stream the log of a job as server-sent events; Last-Event-ID resumes a stream",
                json!([
                    { "name": "job", "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } },
                    { "name": "from", "in": "query", "description": "First byte", "schema": number },
                ]),
                text("text/event-stream"),
            ),
        ),
        (
            "/api/v1/wait",
            authenticated(
                "wait",
                "Wait for an event after `since`, at most `ms` milliseconds",
                json!([since, { "name": "ms", "in": "query", "schema": { "type": "integer", "minimum": 0, "maximum": 60_000 } }]),
                json!({
                    "description": "The sequence of the newest event.",
                    "content": content(&plain_answer(&json!({
                        "type": "object", "required": ["last"], "properties": { "last": number },
                    }))),
                }),
            ),
        ),
    ]
}
