// The pages of workflows, in one file.

export { default as Workflows } from './flow/List.svelte';
export { default as Workflow } from './flow/Page.svelte';
export { default as WorkflowRun } from './flow/Run.svelte';
