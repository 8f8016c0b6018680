//! The description of the interface, made from the table of operations.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use waypost_core::op::Effect;

use super::route::{Op, ROOT};

/// Returns the document.
pub(crate) fn document(ops: &[Op]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for op in ops.iter().filter(|op| op.is_public()) {
        let (rest, name) = (&op.rest, op.described.name);
        let method = if rest.is_get { "get" } else { "post" };
        let key = rest.key.as_deref();
        match &rest.named_path {
            None => add(&mut paths, &rest.path, method, expected(op, name, key, &mut generator)),
            Some(path) => {
                add(&mut paths, &rest.path, method, expected(op, name, None, &mut generator));
                let named = expected(op, &format!("{name}_named"), key, &mut generator);
                add(&mut paths, path, method, named);
            }
        }
    }
    add(&mut paths, &format!("{ROOT}/op/{{operation}}"), "post", by_name(ops));
    for (path, operation) in others() {
        add(&mut paths, path, "get", operation);
    }
    paths.sort_keys();
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Error".to_owned(), error_schema());
    schemas.insert("Answer".to_owned(), answer_schema());
    share_fields(&mut schemas);
    let mut used = Vec::new();
    references(&Value::Object(paths.clone()), &schemas, &mut used);
    schemas.retain(|name, _| used.contains(name) || name == "Error");
    schemas.sort_keys();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Waypost",
            "version": "1",
            "description": "Everything that can be asked of a store and its ledgers. Whoever asks sends a token; what is \
                written is on disk when the answer comes.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Error": { "description": "What went wrong.", "content": content(&json!({ "$ref": "#/components/schemas/Error" })) },
                "Unchanged": { "description": "As If-None-Match says, nothing changed." },
            },
            "parameters": { "IdempotencyKey": {
                "name": "Idempotency-Key", "in": "header", "required": false,
                "description": "The same key gives the same answer, however often it is asked.",
                "schema": { "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$" },
            } },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    bound(&mut document);
    document
}

fn add(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
    let item = paths.entry(path).or_insert_with(|| json!({}));
    item[method] = operation;
}

/// Describes an operation at the address that people expect.
fn expected(op: &Op, id: &str, key: Option<&str>, generator: &mut SchemaGenerator) -> Value {
    let rest = &op.rest;
    let mut parameters = Vec::new();
    if let Some(key) = key {
        parameters.push(json!({ "name": key, "in": "path", "required": true, "schema": named(&op.properties[key]) }));
    }
    let mut operation = operation(op, id, if rest.is_list { Answer::List } else { Answer::One }, generator);
    if rest.is_get {
        let fields = rest.nested.as_ref().map_or(&op.properties, |(_, fields)| fields);
        for (name, schema) in fields.iter().filter(|(name, _)| key != Some(name.as_str())) {
            let is_required = op.required.contains(name) && name != "limit";
            let mut schema = without_null(schema.clone());
            if name == "limit" {
                (schema["maximum"], schema["default"]) = (json!(1000), json!(100));
            }
            let mut parameter = json!({ "name": name, "in": "query", "required": is_required, "schema": schema });
            if schema.get("type") == Some(&json!("array")) {
                (parameter["style"], parameter["explode"]) = (json!("form"), json!(false));
            }
            parameters.push(parameter);
        }
        operation["responses"]["304"] = json!({ "$ref": "#/components/responses/Unchanged" });
    } else {
        let mut required = op.required.clone();
        let mut schema = arguments(op, generator);
        if let Some(key) = key {
            // What stands in the address does not stand in the body.
            let mut properties = resolved(&schema, generator)["properties"].take();
            if let Value::Object(properties) = &mut properties {
                properties.shift_remove(key);
            }
            required.retain(|name| name != key);
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

/// Describes how all of them are asked for by name. What each takes and answers is described where people expect it.
fn by_name(ops: &[Op]) -> Value {
    let names: Vec<&str> = ops.iter().filter(|op| op.is_public()).map(|op| op.described.name).collect();
    json!({
        "operationId": "operate",
        "summary": "Run an operation by its name, the operationId of its entry here, with all its arguments in the body",
        "parameters": [
            { "name": "operation", "in": "path", "required": true, "schema": { "enum": names } },
            { "$ref": "#/components/parameters/IdempotencyKey" },
        ],
        "requestBody": body(&json!({ "type": "object" }), false),
        "responses": { "200": answer(&json!({ "data": { "type": "object" } })), "default": errors() },
    })
}

/// Describes the arguments of an operation. It has those and no others.
fn arguments(op: &Op, generator: &mut SchemaGenerator) -> Value {
    let schema = (op.described.schema)(generator).to_value();
    if let Some(definition) = definition(&schema).and_then(|name| generator.definitions_mut().get_mut(name)) {
        definition["additionalProperties"] = json!(false);
    }
    schema
}

/// Returns what a reference leads to.
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
    let answered = (op.described.answer_schema)(generator).to_value();
    let mut properties = Map::new();
    match form {
        Answer::One => drop(properties.insert("data".to_owned(), answered)),
        Answer::List => {
            // The list itself is the data; what else there is to say stands beside it.
            let fields = resolved(&answered, generator);
            for (name, schema) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let is_list = schema.get("type") == Some(&json!("array"));
                properties.insert(if is_list { "data".to_owned() } else { name.clone() }, schema.clone());
            }
        }
    }
    json!({
        "operationId": id,
        "summary": op.described.summary,
        "x-effect": if op.described.effect == Effect::Write { "write" } else { "read" },
        "responses": {
            "200": answer(&Value::Object(properties)),
            "default": errors(),
        },
    })
}

/// Describes an answer with these fields beside those that all have.
fn answer(properties: &Value) -> Value {
    let schema = json!({ "allOf": [{ "$ref": "#/components/schemas/Answer" }, { "properties": properties }] });
    json!({ "description": "The answer.", "content": content(&schema) })
}

fn answer_schema() -> Value {
    json!({
        "type": "object",
        "required": ["schema", "data", "warnings"],
        "properties": {
            "schema": { "const": "waypost/1" },
            "warnings": { "type": "array", "items": { "type": "string" } },
        },
    })
}

fn errors() -> Value {
    json!({ "$ref": "#/components/responses/Error" })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

/// Lets what has all fields of something else say so, and say only what it has beside them.
fn share_fields(schemas: &mut Map<String, Value>) {
    fn fields(schema: &Value) -> Option<&Map<String, Value>> {
        let is_open = schema.get("additionalProperties").is_none() && schema.get("allOf").is_none();
        schema.get("properties").and_then(Value::as_object).filter(|_| is_open)
    }
    let mut names: Vec<String> = schemas.keys().cloned().collect();
    // Those that have much first, while what they have is still spelled out.
    names.sort_by_key(|name| std::cmp::Reverse(fields(&schemas[name]).map_or(0, Map::len)));
    for name in &names {
        let Some(whole) = fields(&schemas[name]) else { continue };
        let is_part = |part: &&String| {
            let part = fields(&schemas[*part]);
            part.is_some_and(|part| {
                part.len() < whole.len() && part.iter().all(|(key, field)| whole.get(key) == Some(field))
            })
        };
        // A few fields are the same by chance.
        let most = |part: &&String| fields(&schemas[*part]).map_or(0, Map::len);
        let Some(part) = names.iter().filter(is_part).max_by_key(most).filter(|part| most(part) > 4) else { continue };
        let shared: Vec<String> = fields(&schemas[part]).into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let mut rest = schemas[name].clone();
        if let Some(properties) = rest["properties"].as_object_mut() {
            properties.retain(|key, _| !shared.contains(key));
        }
        rest["allOf"] = json!([{ "$ref": format!("#/components/schemas/{part}") }]);
        schemas[name] = rest;
    }
}

/// Finds the schemas that something refers to, and those that they refer to.
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

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["schema", "error"],
        "properties": {
            "schema": { "const": "waypost/1" },
            "error": {
                "type": "object",
                "required": ["code", "message", "hints"],
                "properties": {
                    "code": {
                        "type": "string",
                        "description": "What kind it is: one that the commands know, or why a request was not looked at.",
                    },
                    "message": { "type": "string" },
                    "hints": { "type": "array", "items": { "type": "string" } },
                },
            },
        },
    })
}

fn body(schema: &Value, is_required: bool) -> Value {
    json!({ "required": is_required, "content": content(schema) })
}

/// Describes the header that makes a write safe to repeat.
fn idempotency(op: &Op) -> Option<Value> {
    (op.described.effect == Effect::Write).then(|| json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
}

/// What stands in a path is not empty.
fn named(schema: &Value) -> Value {
    let mut schema = without_null(schema.clone());
    if schema.get("pattern").is_none() {
        schema["minLength"] = json!(1);
    }
    schema
}

/// In an address, nothing is said by saying nothing.
fn without_null(mut schema: Value) -> Value {
    if let Some(kinds) = schema.get("type").and_then(Value::as_array) {
        let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        if let [kind] = kinds.as_slice() {
            schema["type"] = kind.clone();
        }
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

/// Says how large numbers may be.
fn bound(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let most = match fields.get("format").and_then(Value::as_str) {
                Some("uint32") => Some(json!(u32::MAX)),
                // Databases count with a sign.
                Some("uint64" | "int64") => Some(json!(i64::MAX)),
                _ => None,
            };
            if let Some(most) = most {
                fields.entry("maximum").or_insert(most);
            }
            fields.values_mut().for_each(bound);
        }
        Value::Array(items) => items.iter_mut().for_each(bound),
        _ => {}
    }
}

/// What is there beside the operations.
fn others() -> Vec<(&'static str, Value)> {
    let text =
        |kind: &str| json!({ "description": "As it is now.", "content": { kind: { "schema": { "type": "string" } } } });
    let open = |id: &str, summary: &str, answer: Value| {
        json!({
            "operationId": id, "summary": summary, "security": [],
            "responses": { "200": answer, "default": errors() },
        })
    };
    let closed = |id: &str, summary: &str, parameters: Value, answer: Value| {
        json!({
            "operationId": id, "summary": summary, "parameters": parameters,
            "responses": { "200": answer, "default": errors() },
        })
    };
    let number = json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX });
    let since = json!({ "name": "since", "in": "query", "schema": number });
    let filter = |name: &str, text: &str| json!({ "name": name, "in": "query", "description": text, "schema": { "type": "string" } });
    vec![
        ("/healthz", open("healthz", "Tell whether the server runs", text("text/plain"))),
        ("/readyz", open("readyz", "Tell whether the store can be reached", text("text/plain"))),
        ("/metrics", closed("metrics", "Count, for Prometheus", json!([]), text("text/plain"))),
        (
            "/openapi.json",
            closed(
                "openapi",
                "Describe the interface",
                json!([]),
                json!({
                    "description": "This document.", "content": { "application/json": { "schema": { "type": "object" } } },
                }),
            ),
        ),
        (
            "/api/v1/events/stream",
            closed(
                "stream_events",
                "Tell what happens, as server-sent events; Last-Event-ID goes on where a stream ended",
                json!([
                    since,
                    filter("kind", "Only these kinds, or all of a subject: task.claimed,workflow"),
                    filter("subject", "Only what is about this"),
                    filter("worktree_id", "Only what was done from this worktree"),
                ]),
                text("text/event-stream"),
            ),
        ),
        (
            "/api/v1/jobs/{job}/log/stream",
            closed(
                "stream_log",
                "Tell what a job prints, as server-sent events; Last-Event-ID goes on where a stream ended",
                json!([
                    { "name": "job", "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } },
                    { "name": "from", "in": "query", "description": "From this byte on", "schema": number },
                ]),
                text("text/event-stream"),
            ),
        ),
        (
            "/api/v1/wait",
            closed(
                "wait",
                "Wait until something happens after an event, or until time is up",
                json!([since, { "name": "ms", "in": "query", "schema": { "type": "integer", "minimum": 0, "maximum": 60_000 } }]),
                json!({ "description": "How far it got.", "content": { "application/json": { "schema": { "type": "object" } } } }),
            ),
        ),
        ("/login", open("login", "Let a browser in that has a code", json!({ "description": "It is in." }))),
    ]
}
