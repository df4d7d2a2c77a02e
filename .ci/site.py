"""Hooks for mkdocs: they list the pages that exist, and copy linked files from outside docs/."""

import os
import re

from mkdocs.structure.files import File

# Matches a relative link that goes up, possibly to a file outside docs/. GitHub follows such links,
# and the site contains copies of the files.
UP = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def _outside(page, link):
    """Returns the path of a linked file from the root, or None if the file is in docs/."""
    path = os.path.normpath(os.path.join(os.path.dirname(page), link))
    return path[3:] if path.startswith("../") else None


def on_config(config):
    config["nav"] = list(_there(config["nav"], config["docs_dir"]))
    return config


def _there(entries, docs):
    """Yields the entries of the navigation whose pages exist."""
    for entry in entries:
        if isinstance(entry, str):
            if os.path.exists(os.path.join(docs, entry)):
                yield entry
            continue
        ((title, of),) = entry.items()
        if isinstance(of, list):
            if of := list(_there(of, docs)):
                yield {title: of}
        elif of.endswith("/*"):
            directory = of[:-2]
            if os.path.isdir(os.path.join(docs, directory)):
                pages = sorted(n for n in os.listdir(os.path.join(docs, directory)) if n.endswith(".md"))
                yield {title: [f"{directory}/{n}" for n in pages]}
        elif os.path.exists(os.path.join(docs, of)):
            yield entry


def on_files(files, config):
    """Removes tests, and adds files outside docs/ to which pages link."""
    for f in list(files):
        if f.src_path.endswith(".go"):
            files.remove(f)
    root = os.path.dirname(config["docs_dir"])
    for f in list(files.documentation_pages()):
        with open(f.abs_src_path, encoding="utf-8") as page:
            for link, _ in UP.findall(page.read()):
                path = _outside(f.src_path, link)
                if path and os.path.isfile(os.path.join(root, path)) and not files.get_file_from_path("files/" + _shown(path)):
                    files.append(_copy(root, path, config))
    return files


def _shown(path):
    """Returns the name of a copy. It ends in .txt, so browsers show the file and mkdocs builds no page from it."""
    return path + ".txt"


def _copy(root, path, config):
    f = File("files/" + _shown(path), root, config["site_dir"], config["use_directory_urls"])
    f.abs_src_path = os.path.join(root, path)
    return f


def on_page_markdown(markdown, page, config, files):
    def point(m):
        path = _outside(page.file.src_path, m[1])
        return m[0] if path is None else f"]({'../' * page.file.src_path.count('/')}files/{_shown(path)})"

    page.title = page.title.replace("`", "")  # mkdocs shows titles without formatting
    return UP.sub(point, markdown)
