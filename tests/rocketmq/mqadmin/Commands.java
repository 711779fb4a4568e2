import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs mqadmin's commands in one process: a line in, its words by tabs; the size of what was printed and the text out. */
public class Commands {
  public static void main(String[] ignored) throws Exception {
    // mqadmin keeps its commands, and queryMsgByUniqueKey keeps its connection: to the first name server that it was
    // asked about, whatever a later line names. Each line gets commands of its own.
    Field kept = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
    kept.setAccessible(true);
    List<?> commands = (List<?>) kept.get(null);
    PrintStream out = System.out;
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line; (line = in.readLine()) != null; ) {
      ByteArrayOutputStream printed = new ByteArrayOutputStream();
      PrintStream to = new PrintStream(printed, true, "UTF-8");
      System.setOut(to);
      System.setErr(to);
      try {
        commands.clear();
        MQAdminStartup.main0(line.split("\t"), null);
      } catch (Throwable error) {
        error.printStackTrace(to);
      }
      to.flush();
      out.println(printed.size());
      printed.writeTo(out);
      out.flush();
    }
    System.exit(0);
  }
}
