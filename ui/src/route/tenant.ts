// The tenant that the address names: `/ui/t/{tenant}/…` has the same pages for administrators of the
// cluster. Relative addresses then begin below it. Must be loaded before any other part.

/** Where the dashboard is, whatever tenant it shows. */
export const uiBase = new URL(document.baseURI).pathname;

const named = /^t\/([^/]+)(?:\/|$)/.exec(location.pathname.slice(uiBase.length))?.[1];

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const tenant: string | undefined = named === undefined ? undefined : decoded(named);

export const tenantBase = (name: string): string => `${uiBase}t/${encodeURIComponent(name)}/`;

if (tenant !== undefined) {
  // What the page has loaded by a relative address stays where it is.
  for (const link of document.querySelectorAll<HTMLLinkElement>('link[href]')) link.setAttribute('href', link.href);
  const base = document.querySelector('base');
  if (base) base.href = tenantBase(tenant);
}

/** The header by which requests name the tenant. */
export const tenantHeader: Record<string, string> = tenant === undefined ? {} : { 'Punctual-Tenant': tenant };
