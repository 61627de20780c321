"""The few words of the templates, by language: no catalogue to compile for a demo."""

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import get_language

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "skip": "Skip to the content",
        "menu": "Sections",
        "languages": "Languages",
        "updated": "Last published",
        "demo": (
            "This site is a demonstration of wagtail_indexnow. What you publish, schedule, move, "
            "hide or delete in its admin is told, once it is really public, to a search engine "
            "that runs beside it on this machine."
        ),
        "admin": "Edit the pages in the admin",
        "engine": "See what the search engine was told",
        "other_site": "Go to the museum’s other site",
    },
    "fr": {
        "skip": "Aller au contenu",
        "menu": "Rubriques",
        "languages": "Langues",
        "updated": "Dernière publication",
        "demo": (
            "Ce site est une démonstration de wagtail_indexnow. Ce que vous publiez, planifiez, "
            "déplacez, masquez ou supprimez dans l’administration est annoncé, dès que c’est "
            "vraiment public, à un moteur de recherche qui tourne à côté, sur cette machine."
        ),
        "admin": "Modifier les pages dans l’administration",
        "engine": "Voir ce que le moteur de recherche a appris",
        "other_site": "Aller à l’autre site du musée",
    },
    "de": {
        "skip": "Zum Inhalt springen",
        "menu": "Bereiche",
        "languages": "Sprachen",
        "updated": "Zuletzt veröffentlicht",
        "demo": (
            "Diese Website führt wagtail_indexnow vor. Was Sie in der Verwaltung veröffentlichen, "
            "einplanen, verschieben, verbergen oder löschen, erfährt, sobald es wirklich "
            "öffentlich ist, eine Suchmaschine, die daneben auf diesem Rechner läuft."
        ),
        "admin": "Seiten in der Verwaltung bearbeiten",
        "engine": "Ansehen, was die Suchmaschine erfahren hat",
        "other_site": "Zur anderen Website des Museums",
    },
}


def words(request: HttpRequest) -> dict[str, object]:
    """Give templates the words of the active language and the addresses of the demo."""
    language = (get_language() or "en").partition("-")[0]
    engine_url, port = settings.ENGINE_URL, settings.PORT  # type: ignore[misc]
    other_host = "localhost" if request.get_host().startswith("127.") else "127.0.0.1"
    return {
        "words": WORDS.get(language, WORDS["en"]),
        "engine_url": engine_url,
        "other_site_url": f"http://{other_host}:{port}/",
    }
