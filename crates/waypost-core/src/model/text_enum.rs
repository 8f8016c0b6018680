//! Closed lists of words, the same in code, SQL, JSON and commands.

/// Makes an enum whose values are words: as text, in JSON, and read back.
macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident: $what:literal { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$word_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the word, as stored and shown.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        /// Without the variants' texts: a reader of the schema needs the words.
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($word),*] })
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
                $name::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    let known: Vec<_> = $name::ALL.iter().map(|word| word.as_str()).collect();
                    $crate::error::Error::invalid(format!("{text:?} is not {}", $what))
                        .hint(format!("one of: {}", known.join(", ")))
                })
            }
        }
    };
}

pub(crate) use text_enum;
