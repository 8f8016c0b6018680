//! Enums with a fixed text for each value, the same in code, SQL, JSON and commands.

/// Defines an enum whose values have a text: to display, to serialize and to parse.
macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident: $what:literal { $($(#[$value_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the text, as stored and shown.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let known = $name::ALL.iter().copied().find(|value| value.as_str() == text);
                known.ok_or_else(|| serde::de::Error::unknown_variant(&text, &[$($text),*]))
            }
        }

        /// Lists the values without descriptions, to keep the schema short.
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($text),*] })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> $crate::error::Result<Self> {
                $name::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    let known: Vec<_> = $name::ALL.iter().map(|value| value.as_str()).collect();
                    $crate::error::Error::invalid(format!("{text:?} is not {}", $what))
                        .hint(format!("one of: {}", known.join(", ")))
                })
            }
        }
    };
}

pub(crate) use text_enum;
