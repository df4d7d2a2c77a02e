"""What mkdocs does not do by itself: the pages that there are, and files beside docs/."""

import os
import re

from mkdocs.structure.files import File

# A link that goes up, and may go out of docs/, to a file of the repository: GitHub follows it, and
# the site has a copy of the file.
UP = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def _outside(page, link):
    """The path of a linked file that is not in docs/, from the root; None: it is."""
    path = os.path.normpath(os.path.join(os.path.dirname(page), link))
    return path[3:] if path.startswith("../") else None


def on_config(config):
    config["nav"] = list(_there(config["nav"], config["docs_dir"]))
    return config


def _there(entries, docs):
    """The entries of the navigation whose pages are there."""
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
    """Takes tests out, and files in that pages link to outside of docs/."""
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
    """The name of a copy: as text, so that a browser shows it and nothing takes it for a page."""
    return path + ".txt"


def _copy(root, path, config):
    f = File("files/" + _shown(path), root, config["site_dir"], config["use_directory_urls"])
    f.abs_src_path = os.path.join(root, path)
    return f


def on_page_markdown(markdown, page, config, files):
    def point(m):
        path = _outside(page.file.src_path, m[1])
        return m[0] if path is None else f"]({'../' * page.file.src_path.count('/')}files/{_shown(path)})"

    page.title = page.title.replace("`", "")  # it is shown as it is
    return UP.sub(point, markdown)
