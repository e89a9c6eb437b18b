// Sets the theme before the first paint. A file of its own: the page allows no script inside it.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem('punctual-theme');
  } catch {
    // A browser without storage follows the system.
  }
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme =
    chosen === 'dark' || chosen === 'light' ? chosen : dark ? 'dark' : 'light';
})();
