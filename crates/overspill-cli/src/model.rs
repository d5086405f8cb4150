//! Which model writes summaries, and why there may be none.

use overspill::config::ModelConfig;
use overspill::summary::ModelName;
use overspill_model::{ApiKey, HttpModel};

use crate::failure::Failure;

/// What decides which model is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'c> {
    /// What the file names.
    pub(crate) named: Option<&'c ModelConfig>,
    /// The model that the run itself asks, where it is known.
    pub(crate) of_run: Option<&'c ModelName>,
    /// Whether the user chose the file. One that was found in a project may be somebody else's:
    /// outputs and keys must not go where it says.
    pub(crate) is_own_file: bool,
}

impl Choice<'_> {
    /// The model, with a key from `variable`, which reads the environment.
    ///
    /// # Errors
    ///
    /// Why nobody can be asked, and what to do about it.
    pub(crate) fn model(
        self,
        variable: impl FnOnce(&str) -> Result<Option<String>, Failure>,
    ) -> Result<HttpModel, Failure> {
        let of_run = |model: &ModelName| {
            let (base_url, api_key_env) = (None, None);
            ModelConfig { model: model.clone(), base_url, api_key_env }
        };
        let Some(config) = self.named.cloned().or_else(|| self.of_run.map(of_run)) else {
            return Err(Failure::usage("no model is named to summarize with")
                .hint("write model = \"openai:…\" under [summarize]"));
        };
        let ModelConfig { model, base_url, api_key_env } = &config;
        // To a port of this machine as well: anybody may listen there.
        let goes_elsewhere =
            api_key_env.is_some() || base_url.as_ref().is_some_and(|url| !url.is_local());
        if goes_elsewhere && !self.is_own_file {
            return Err(Failure::usage(format!(
                "{model} is not asked: the file was found in a project, and such a file may not say \
                 which endpoint gets outputs, or which key"
            ))
            .hint(
                "name the file with --config or OVERSPILL_CONFIG, or put [summarize] into your own \
                 file",
            ));
        }
        let mut builder = HttpModel::configured(&config);
        if let Some(name) = config.key_variable() {
            let Some(key) = variable(name)? else {
                return Err(Failure::usage(format!("{model} is not asked: {name} is not set"))
                    .hint(format!(
                        "set {name} to a key, or name a model and another variable, with model \
                         and api_key_env under [summarize]"
                    )));
            };
            builder = builder.key(ApiKey::new(name, key)?);
        }
        Ok(builder.build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(model: &str, base_url: Option<&str>, api_key_env: Option<&str>) -> ModelConfig {
        ModelConfig {
            model: model.parse().unwrap(),
            base_url: base_url.map(|url| url.parse().unwrap()),
            api_key_env: api_key_env.map(str::to_owned),
        }
    }

    /// The variable that is read for a key, or why nobody is asked.
    fn key_of(named: &ModelConfig, is_own_file: bool) -> Result<Option<String>, String> {
        let mut read = None;
        let choice = Choice { named: Some(named), of_run: None, is_own_file };
        let model = choice.model(|name| {
            read = Some(name.to_owned());
            Ok(Some("sk-1".to_owned()))
        });
        model.map(|_| read).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_providers_key_goes_to_the_provider_alone() {
        let key = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(key_of(&named("openai:m", None, None), false), key("OPENAI_API_KEY"));
        assert_eq!(key_of(&named("anthropic:m", None, None), false), key("ANTHROPIC_API_KEY"));
        assert_eq!(key_of(&named("ollama:m", None, None), false), Ok(None));
        let elsewhere = Some("https://elsewhere.example/v1");
        assert_eq!(key_of(&named("openai:m", elsewhere, None), true), Ok(None));
        assert_eq!(key_of(&named("openai:m", elsewhere, Some("MY_KEY")), true), key("MY_KEY"));
    }

    #[test]
    fn a_projects_file_sends_nothing_elsewhere() {
        let elsewhere = Some("https://elsewhere.example/v1");
        let here = Some("http://127.0.0.1:8000/v1");
        for foreign in [
            named("openai:m", elsewhere, None),
            named("openai:m", None, Some("SECRET")),
            named("openai:m", here, Some("SECRET")),
        ] {
            let why = key_of(&foreign, false).unwrap_err();
            assert!(why.starts_with("openai:m is not asked: the file was found"), "{why}");
        }
        assert_eq!(key_of(&named("openai:m", here, None), false), Ok(None));
        assert_eq!(key_of(&named("openai:m", here, Some("K")), true), Ok(Some("K".into())));
    }

    #[test]
    fn without_a_key_or_a_model_it_says_what_to_do() {
        let of_run = "anthropic:claude".parse().unwrap();
        let choice = Choice { named: None, of_run: Some(&of_run), is_own_file: true };
        let why = choice.model(|_| Ok(None)).unwrap_err().to_string();
        assert_eq!(
            why,
            "anthropic:claude is not asked: ANTHROPIC_API_KEY is not set\n\
             hint: set ANTHROPIC_API_KEY to a key, or name a model and another variable, with model \
             and api_key_env under [summarize]"
        );
        let choice = Choice { of_run: None, ..choice };
        let why = choice.model(|_| Ok(None)).unwrap_err().to_string();
        assert!(why.starts_with("no model is named to summarize with\nhint: "), "{why}");
    }
}
