// Pages that administrators use: one file, which is smaller than its parts.

export { default as Administration } from './admin/Page.svelte';
export { default as Audit } from './audit/Page.svelte';
export { default as DeadLetters } from './dead/Page.svelte';
export { default as Cluster } from './cluster/Page.svelte';
export { default as Sql } from './sql/Page.svelte';
export { default as Queue } from './queues/Page.svelte';
export { default as Queues } from './queues/List.svelte';
