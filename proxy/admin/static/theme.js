// Sets the chosen theme before anything is painted. It isn't a module, because modules run
// too late.
(() => {
  try {
    const theme = localStorage.getItem('tempomat-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {} // without storage, the system's theme applies
})();
