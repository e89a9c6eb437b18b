// The way of a statement through JDBC: prints what tests/it/sql/drivers.rs expects.
//
// Started from its source, so that nothing is left behind. Its arguments: the address, the key of
// the administrator, and another user with a password.

import java.io.StringWriter;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.PGStatement;
import org.postgresql.util.PSQLException;

public class JdbcWalk {
    /** Much longer than anything here takes. */
    private static final int PATIENCE_SECONDS = 60;

    private static final String SLOW =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) "
                    + "SELECT count(*) FROM n";

    public static void main(String[] args) throws Exception {
        String address = args[0];
        try (Connection connection = connect(address, "admin", args[1], "disable")) {
            statements(connection);
            prepared(connection);
            values(connection);
            portals(connection);
            blocks(connection);
            errors(connection);
            batches(connection);
            metadata(connection.getMetaData());
            cancelled(connection);
            notified(connection);
            copied(connection);
            dropped(connection);
        }
        try (Connection connection = connect(address, args[2], args[3], "require")) {
            say("tls", one(connection, "SELECT current_user || ' ' || current_database()"));
        }
        try {
            connect(address, args[2], args[3] + "x", "require").close();
            say("wrong password", "let in");
        } catch (SQLException refused) {
            say("wrong password", refused.getSQLState());
        }
    }

    private static void say(String what, Object said) {
        System.out.println(what + ": " + said);
    }

    private static Connection connect(String address, String user, String secret, String tls)
            throws SQLException {
        Properties properties = new Properties();
        properties.put("user", user);
        properties.put("password", secret);
        properties.put("sslmode", tls);
        return DriverManager.getConnection("jdbc:postgresql://" + address + "/default", properties);
    }

    /** The rows of an answer; values with a blank between them, rows with a comma. */
    private static String rows(ResultSet answer, int columns) throws SQLException {
        StringJoiner rows = new StringJoiner(", ");
        while (answer.next()) {
            StringJoiner row = new StringJoiner(" ");
            for (int n = 1; n <= columns; n++) {
                row.add(answer.getString(n));
            }
            rows.add(row.toString());
        }
        answer.close();
        return rows.toString();
    }

    private static int count(ResultSet answer) throws SQLException {
        int count = 0;
        while (answer.next()) {
            count++;
        }
        answer.close();
        return count;
    }

    private static String one(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return rows(statement.executeQuery(sql), 1);
        }
    }

    /** Texts of any number of statements, in the simple way and the other. */
    private static void statements(Connection connection) throws SQLException {
        Statement statement = connection.createStatement();
        say("created", statement.executeUpdate("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP"));
        say("altered", statement.executeUpdate("ALTER JOB hello SET PRIORITY = 7"));
        boolean isRows = statement.execute("SELECT 1; ALTER JOB hello SET TAGS = ('a'); SELECT 2");
        StringJoiner said = new StringJoiner(", ");
        while (isRows || statement.getUpdateCount() != -1) {
            said.add(isRows ? rows(statement.getResultSet(), 1) : "done");
            isRows = statement.getMoreResults();
        }
        say("several", said);
        say("started", count(statement.executeQuery("EXECUTE JOB hello")));
        say("explained", count(statement.executeQuery("EXPLAIN JOB hello")) > 3);
        say("valid", connection.isValid(PATIENCE_SECONDS));
        statement.close();
    }

    /** Often enough for a name at the server, and for binary rows and values. */
    private static void prepared(Connection connection) throws SQLException {
        UUID id = UUID.fromString(one(connection, "SELECT job_uuid FROM sys.jobs"));
        String question =
                "SELECT job_name, job_uuid, priority, created_time FROM sys.jobs "
                        + "WHERE job_name = ? AND priority = ? AND job_uuid = ? AND created_time <= ?";
        StringJoiner said = new StringJoiner(" ");
        try (PreparedStatement statement = connection.prepareStatement(question)) {
            say("parameters", statement.getParameterMetaData().getParameterTypeName(3));
            for (int n = 0; n < 8; n++) {
                statement.setString(1, "hello");
                statement.setInt(2, 7);
                statement.setObject(3, id);
                statement.setTimestamp(4, Timestamp.valueOf("2999-01-01 00:00:00"));
                try (ResultSet answer = statement.executeQuery()) {
                    boolean isRight =
                            answer.next()
                                    && answer.getString(1).equals("hello")
                                    && answer.getObject(2).equals(id)
                                    && answer.getLong(3) == 7
                                    && answer.getObject(4, OffsetDateTime.class).getYear() >= 2026
                                    && !answer.next();
                    said.add(isRight ? "right" : "wrong");
                }
            }
            say("prepared", said);
            say("at the server", ((PGStatement) statement).isUseServerPrepare());
        }
        try (PreparedStatement statement = connection.prepareStatement("ALTER JOB ? SET PRIORITY = ?")) {
            for (int n = 0; n < 8; n++) {
                statement.setString(1, "hello");
                statement.setInt(2, n);
                statement.executeUpdate();
            }
        }
        say("changed", one(connection, "SELECT priority FROM sys.jobs WHERE job_name = 'hello'"));
    }

    /** Values of every type come back as they were, whichever form they travel in. */
    private static void values(Connection connection) throws SQLException {
        String question =
                "SELECT ?::text, ?::int, ?::bigint, ?::boolean, ?::float8, ?::timestamptz, ?::numeric, "
                        + "?::uuid, ?::smallint, ?::text";
        String last = "";
        try (PreparedStatement statement = connection.prepareStatement(question)) {
            for (int n = 0; n < 8; n++) {
                statement.setString(1, "it's \\ \u00e9");
                statement.setInt(2, -41);
                statement.setLong(3, 1L << 40);
                statement.setBoolean(4, true);
                statement.setDouble(5, 1.5);
                statement.setObject(6, OffsetDateTime.parse("2026-01-02T03:04:05.5Z"));
                statement.setBigDecimal(7, new java.math.BigDecimal("12.50"));
                statement.setObject(8, new UUID(1, 2));
                statement.setShort(9, (short) 3);
                statement.setNull(10, java.sql.Types.VARCHAR);
                ResultSet answer = statement.executeQuery();
                last = rows(answer, 10);
            }
        }
        say("values", last);
        String some = "SELECT count(*) FROM sys.jobs WHERE job_name = ANY (?) AND priority = ANY (?)";
        try (PreparedStatement statement = connection.prepareStatement(some)) {
            for (int n = 0; n < 8; n++) {
                statement.setArray(1, connection.createArrayOf("text", new String[] {"no", "hello"}));
                statement.setArray(2, connection.createArrayOf("int4", new Integer[] {1, 7}));
                last = rows(statement.executeQuery(), 1);
            }
        }
        say("arrays", last);
    }

    /** Rows little by little. */
    private static void portals(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        String question = "SELECT i FROM generate_series(1, 25) AS t(i)";
        try (PreparedStatement statement = connection.prepareStatement(question)) {
            statement.setFetchSize(10);
            say("little by little", count(statement.executeQuery()));
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(3);
            say("no more than", count(statement.executeQuery(question)));
        }
    }

    /** Blocks that the driver begins by itself. */
    private static void blocks(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("CREATE JOB kept AS NOOP");
            connection.commit();
            statement.executeUpdate("CREATE JOB undone AS NOOP");
            connection.rollback();
            try {
                statement.executeUpdate("CREATE JOB first AS NOOP");
                statement.executeUpdate("PAUSE JOB hello");
            } catch (SQLException error) {
                say("two changes", error.getSQLState());
            }
            connection.rollback();
        }
        connection.setAutoCommit(true);
        say("block", one(connection, "SELECT job_name FROM sys.jobs ORDER BY 1"));
    }

    private static void errors(Connection connection) throws SQLException {
        for (String sql :
                new String[] {
                    "SELECT nope FROM sys.jobs",
                    "CREATE JOB x SCHEDUL CRON '* * * * *' AS NOOP",
                    "DROP JOB nobody",
                    "UPDATE sys.jobs SET priority = 1"
                }) {
            try (PreparedStatement statement = connection.prepareStatement(sql)) {
                statement.execute();
                say("error", "none");
            } catch (PSQLException error) {
                int position = error.getServerErrorMessage().getPosition();
                say("error", error.getSQLState() + " at " + position);
            }
        }
    }

    private static void batches(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("CREATE JOB b1 AS NOOP");
            statement.addBatch("CREATE JOB b2 AS NOOP");
            say("batch", Arrays.toString(statement.executeBatch()));
            statement.addBatch("CREATE JOB b3 AS NOOP");
            statement.addBatch("CREATE JOB b1 AS NOOP");
            statement.addBatch("CREATE JOB b4 AS NOOP");
            statement.executeBatch();
            say("batch", "no error");
        } catch (BatchUpdateException error) {
            say("batch", error.getSQLState());
        }
        try (PreparedStatement statement = connection.prepareStatement("ALTER JOB ? SET PRIORITY = ?")) {
            for (int n = 0; n < 8; n++) {
                statement.setString(1, n % 2 == 0 ? "b1" : "b2");
                statement.setInt(2, n);
                statement.addBatch();
            }
            say("batch", statement.executeBatch().length);
        }
        try (Statement statement = connection.createStatement()) {
            String question = "SELECT job_name, priority FROM sys.jobs WHERE job_name LIKE 'b_' ORDER BY 1";
            say("batch", rows(statement.executeQuery(question), 2));
        }
    }

    /** What tools ask when they start. */
    private static void metadata(DatabaseMetaData meta) throws SQLException {
        say("product", meta.getDatabaseProductName() + " " + meta.getDatabaseMajorVersion());
        say("catalogs", rows(meta.getCatalogs(), 1));
        say("schemas", rows(meta.getSchemas(), 1));
        String[] kinds = {"TABLE"};
        try (ResultSet tables = meta.getTables(null, "sys", "job%", kinds)) {
            StringJoiner names = new StringJoiner(" ");
            while (tables.next()) {
                names.add(tables.getString("TABLE_NAME"));
            }
            say("tables", names);
        }
        try (ResultSet columns = meta.getColumns(null, "sys", "job_dependencies", "%")) {
            StringJoiner names = new StringJoiner(" ");
            while (columns.next()) {
                names.add(columns.getString("COLUMN_NAME") + ":" + columns.getString("TYPE_NAME"));
            }
            say("columns", names);
        }
        say("keys", count(meta.getPrimaryKeys(null, "sys", "jobs")));
        say("indexes", count(meta.getIndexInfo(null, "sys", "jobs", false, true)));
        say("imported", count(meta.getImportedKeys(null, "sys", "jobs")));
        say("exported", count(meta.getExportedKeys(null, "sys", "jobs")));
        say("best row", count(meta.getBestRowIdentifier(null, "sys", "jobs", 0, true)));
        say("version columns", count(meta.getVersionColumns(null, "sys", "jobs")));
        say("procedures", count(meta.getProcedures(null, "sys", "%")));
        say("functions", count(meta.getFunctions(null, "sys", "%")));
        say("user types", count(meta.getUDTs(null, "sys", "%", null)));
        say("types", count(meta.getTypeInfo()) > 10);
        say("name length", meta.getMaxColumnNameLength());
        say("keywords", meta.getSQLKeywords().contains("backfill"));
        say("privileges", rows(meta.getTablePrivileges(null, "sys", "jobs"), 6));
    }

    private static void cancelled(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery(SLOW);
        } catch (SQLException error) {
            say("timeout", error.getSQLState());
        }
        // The driver asks once, and what is asked before the statement has begun ends nothing. So it
        // is asked later each time, until the statement was not ended by the clock.
        try (Statement statement = connection.createStatement()) {
            statement.execute("SET statement_timeout = '2s'");
            String ended = "";
            for (int n = 0; n < 20 && !ended.contains("user request"); n++) {
                long pause = 20L << Math.min(n, 6);
                Thread other = new Thread(() -> cancelAfter(statement, pause));
                other.start();
                try {
                    statement.executeQuery(SLOW);
                } catch (SQLException error) {
                    ended = error.getSQLState() + " " + error.getMessage();
                }
                other.join();
            }
            say("cancelled", ended);
            statement.execute("RESET statement_timeout");
        }
        say("afterwards", one(connection, "SELECT 'fine'"));
    }

    private static void cancelAfter(Statement statement, long pause) {
        try {
            Thread.sleep(pause);
            statement.cancel();
        } catch (SQLException | InterruptedException error) {
            System.err.println(error);
        }
    }

    private static void notified(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("LISTEN punctual_jobs");
            statement.executeUpdate("ALTER JOB hello SET PRIORITY = 1");
            for (int second = 0; second < PATIENCE_SECONDS; second++) {
                PGNotification[] heard =
                        connection.unwrap(PGConnection.class).getNotifications(1000);
                if (heard != null && heard.length > 0) {
                    boolean isIt = heard[0].getParameter().contains("\"hello\"");
                    say("heard", heard[0].getName() + " " + isIt);
                    break;
                }
            }
            statement.execute("UNLISTEN *");
        }
    }

    private static void copied(Connection connection) throws Exception {
        StringWriter text = new StringWriter();
        String copy = "COPY (SELECT job_name, priority FROM sys.jobs WHERE job_name < 'c' ORDER BY 1) "
                + "TO STDOUT (FORMAT csv, HEADER)";
        long rows = connection.unwrap(PGConnection.class).getCopyAPI().copyOut(copy, text);
        say("copied", rows + " " + text.toString().trim().replace("\n", ";"));
    }

    private static void dropped(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("DROP JOB ?")) {
            statement.setString(1, "hello");
            say("dropped", statement.executeUpdate());
        }
        say("left", one(connection, "SELECT count(*) FROM sys.jobs WHERE job_name = 'hello'"));
    }
}
