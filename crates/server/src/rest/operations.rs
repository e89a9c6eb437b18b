//! Parts of descriptions of operations, for routes that several resources share.

use axum::routing::MethodRouter;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{
    ContentBuilder, Ref, RefOr, Required, ResponseBuilder, Responses, ResponsesBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::UtoipaMethodRouter;

use crate::app::App;

/// The operations at one address, as `utoipa_axum::routes!` makes them of attributes.
pub(super) struct Routes {
    path: String,
    pub(super) schemas: Vec<(String, RefOr<Schema>)>,
    paths: Paths,
    methods: MethodRouter<App>,
}

impl Routes {
    pub(super) fn at(path: String) -> Self {
        let (schemas, paths, methods) = (Vec::new(), Paths::new(), MethodRouter::new());
        Routes { path, schemas, paths, methods }
    }

    pub(super) fn schemas<T: ToSchema>(&mut self) {
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
    }

    pub(super) fn add(
        &mut self,
        method: HttpMethod,
        operation: OperationBuilder,
        handler: MethodRouter<App>,
    ) {
        let operation: Operation = operation.build();
        self.paths.add_path_operation(&self.path, vec![method], operation);
        self.methods = std::mem::take(&mut self.methods).merge(handler);
    }

    pub(super) fn finish(self) -> UtoipaMethodRouter<App> {
        (self.schemas, self.paths, self.methods)
    }
}

pub(super) fn operation(
    tag: &str,
    id: &str,
    summary: &str,
    parameters: Vec<Parameter>,
) -> OperationBuilder {
    let operation =
        OperationBuilder::new().tags(Some([tag])).operation_id(Some(id)).summary(Some(summary));
    parameters.into_iter().fold(operation, OperationBuilder::parameter)
}

pub(super) fn text_parameter(name: &str, place: ParameterIn, description: String) -> Parameter {
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(description))
        .schema(Some(String::schema()))
        .build()
}

pub(super) fn request_body<T: ToSchema>(kind: &str) -> RequestBody {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(T::name())));
    RequestBodyBuilder::new().content(kind, content.build()).required(Some(Required::True)).build()
}

/// Statuses, each with the schema of its body.
pub(super) fn responses<'a>(
    all: impl IntoIterator<Item = (&'static str, Option<&'a str>)>,
) -> Responses {
    let response = |schema: Option<&str>| {
        let response = ResponseBuilder::new();
        match schema {
            None => response.build(),
            Some(name) => {
                let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(name)));
                response.content("application/json", content.build()).build()
            }
        }
    };
    let all = all.into_iter().map(|(status, schema)| (status, response(schema)));
    all.fold(ResponsesBuilder::new(), |it, (status, response)| it.response(status, response))
        .build()
}
