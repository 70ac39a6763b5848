from .source import PostgresSource as PostgresSource
