from django.apps import AppConfig


class ContentConfig(AppConfig):
    name = "example_site.content"
    label = "content"
    verbose_name = "Museum pages"
